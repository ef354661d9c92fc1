"""What is wrong with a flow, for people: problems grouped by cause, how long they last, and the words for them."""
