"""MirrorMaker 1's command line and its consumer and producer files, to the settings of ``kafka-mirror-maker``."""
