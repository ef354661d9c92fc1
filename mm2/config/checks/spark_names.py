"""Names of the settings of Spark 4.3.0, by prefix. Written by `make spark-keys`."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "spark.": """
        acls.enable admin.acls admin.acls.groups api.mode app.attempt.id app.id app.initial.archive.urls
        app.initial.file.urls app.initial.jar.urls app.name app.startTime app.submitTime
        appStateStore.asyncTracking.enable archives auth authenticate authenticate.enableSaslEncryption
        authenticate.secret authenticate.secret.driver.file authenticate.secret.executor.file authenticate.secret.file
        authenticate.secretBitLength barrier.sync.timeout blacklist.application.fetchFailure.enabled
        blacklist.application.maxFailedExecutorsPerNode blacklist.application.maxFailedTasksPerExecutor
        blacklist.enabled blacklist.killBlacklistedExecutors blacklist.stage.maxFailedExecutorsPerNode
        blacklist.stage.maxFailedTasksPerExecutor blacklist.task.maxTaskAttemptsPerExecutor
        blacklist.task.maxTaskAttemptsPerNode blacklist.timeout block.failures.beforeLocationRefresh blockManager.port
        broadcast.UDFCompressionThreshold broadcast.blockSize broadcast.checksum broadcast.compress buffer.pageSize
        buffer.size buffer.write.chunkSize cache.class callstack.depth cdc.streamingPostProcessing
        checkpoint.checkpointAllMarkedAncestors checkpoint.compress checkpoint.dir
        checkpoint.local.verifyChecksum.enabled checkpoint.local.verifyChecksum.forceSerialized
        cleaner.periodicGC.interval cleaner.referenceTracking cleaner.referenceTracking.blocking
        cleaner.referenceTracking.blocking.shuffle cleaner.referenceTracking.blocking.timeout
        cleaner.referenceTracking.cleanCheckpoints cloneBasedClosureCleaner.enabled cores.max dead.worker.persistence
        decommission.enabled default.parallelism diskStore.subDirectories driver executor executorEnv.OMP_NUM_THREADS
        exit-exception extraListeners file.transferTo files files.fetchFailure.unRegisterOutputOnHost files.fetchTimeout
        files.ignoreCorruptFiles files.ignoreMissingFiles files.io.threads files.maxPartitionBytes files.openCostInBytes
        files.overwrite files.useFetchCache files.userClassPathFirst graphx.pregel.checkpointInterval hadoop.cloneConf
        hadoop.fs.s3a.committer.magic.enabled hadoop.fs.s3a.committer.name hadoop.fs.s3a.downgrade.syncable.exceptions
        hadoop.mapreduce.fileoutputcommitter.algorithm.version hadoop.mapreduce.outputcommitter.factory.scheme.s3a
        hadoop.outputCommitCoordination.enabled hadoop.validateOutputSpecs hadoop.yarn.resourcemanager.principal
        hadoopRDD.ignoreEmptySplits home jars jars.excludes jars.ivy jars.ivySettings jars.packages jars.repositories
        job.description job.interruptOnCancel job.tags jobGroup.id kafka.consumer.cache.capacity
        kerberos.access.hadoopFileSystems kerberos.keytab kerberos.principal kerberos.relogin.period
        kerberos.renewal.credentials kryo.classesToRegister kryo.pool kryo.referenceTracking kryo.registrationRequired
        kryo.registrator kryo.unsafe kryoserializer.buffer kryoserializer.buffer.max kryoserializer.buffer.max.mb
        kryoserializer.buffer.mb launcher.childConectionTimeout launcher.childConnectionTimeout
        launcher.childProcLoggerName launcher.port launcher.secret local.dir locality.wait
        locality.wait.legacyResetOnTaskLaunch locality.wait.node locality.wait.process locality.wait.rack
        log.callerContext log.legacyTaskNameMdc.enabled log.level log.structuredLogging.enabled logConf logLineage
        logging.exceptionPrintInterval master maxRemoteBlockSizeFetchToMem memory.debugFill memory.fraction
        memory.offHeap.enabled memory.offHeap.size memory.storageFraction memory.unmanagedMemoryPollingInterval
        metrics.appStatusSource.enabled metrics.conf metrics.executorMetricsSource.enabled metrics.namespace
        metrics.staticSources.enabled modify.acls modify.acls.groups network plugins plugins.defaultList port.maxRetries
        properties pyspark.driver.python pyspark.python r.backendConnectionTimeout r.command r.driver.command
        r.heartBeatInterval r.numRBackendThreads r.shell.command r.sql.derby.temp.dir
        rdd.cache.visibilityTracking.enabled rdd.checkpoint.cachePreferredLocsExpireTime rdd.compress
        rdd.limit.initialNumPartitions rdd.limit.scaleUpFactor rdd.parallelListingThreshold rdd.scope
        rdd.scope.noOverride redaction.regex redaction.string.regex reducer.maxBlocksInFlightPerAddress
        reducer.maxMbInFlight reducer.maxReqSizeShuffleToMem reducer.maxReqsInFlight reducer.maxSizeInFlight remote
        repl.class.outputDir repl.class.uri repl.classdir repl.local.jars resources.discoveryPlugin
        resources.warnings.testing resultGetter.threads rpc rpc.askTimeout rpc.connect.threads
        rpc.io.numConnectionsPerPeer rpc.io.threads rpc.lookupTimeout rpc.message.maxSize
        rpc.netty.dispatcher.numThreads rpc.numRetries rpc.retry.wait security.credentials.renewalRatio
        security.credentials.retryWait security.directCredentialProviders.enabled serializer serializer.extraDebugInfo
        serializer.objectStreamReset sessionWindow shutdown.timeout sparkr.r.command sparkr.use.daemon speculation
        speculation.efficiency.enabled speculation.efficiency.longRunTaskFactor
        speculation.efficiency.processRateMultiplier speculation.interval speculation.minTaskRuntime
        speculation.multiplier speculation.quantile speculation.task.duration.threshold sql ssl
        stage.ignoreDecommissionFetchFailure stage.maxAttempts stage.maxConsecutiveAttempts
        standalone.executorRemoveDelayOnDisconnection standalone.submit.filterEnvironment
        standalone.submit.waitAppCompletion starvation.timeout submit.appName submit.callSystemExitOnMainExit
        submit.deployMode submit.proxyUser.allowCustomClasspathInClusterMode submit.pyFiles task task.cpus
        task.maxDirectResultSize task.maxFailures task.reaper.enabled task.reaper.killTimeout
        task.reaper.pollingInterval task.reaper.threadDump taskMetrics.trackUpdatedBlockStatuses test.appId
        test.executor.decommission.initial.sleep.millis test.forceNoRebase test.home test.master test.noSerdeInExplain
        test.noStageRetry test.useCompactObjectHeaders test.useCompressedOops testing timeWindow
        unsafe.exceptionOnMemoryLeak unsafe.offHeap unsafe.sorter.spill.merge.factor
        unsafe.sorter.spill.read.ahead.enabled unsafe.sorter.spill.reader.buffer.size user.groups.mapping
        watermarkDelayMs worker
    """,
    "spark.connect.": """
        SparkConnectService authenticate.token copyFromLocalToFs.allowDestLocal execute.manager.abandonedTombstonesSize
        execute.manager.detachedTimeout execute.manager.maintenanceInterval execute.reattachable.enabled
        execute.reattachable.observerRetryBufferSize execute.reattachable.senderMaxStreamDuration
        execute.reattachable.senderMaxStreamSize extensions.command.classes extensions.expression.classes
        extensions.getStatus.classes extensions.relation.classes grpc.arrow.maxBatchSize grpc.binding.address
        grpc.binding.port grpc.debug.enabled grpc.interceptor.classes grpc.keepAlive.enabled grpc.keepAlive.time
        grpc.keepAlive.timeout grpc.marshallerRecursionLimit grpc.maxInboundMessageSize grpc.maxMetadataSize
        grpc.port.maxRetries jvmStacktrace.maxSize maxPlanSize ml.backend.classes operation_id progress.reportInterval
        remote scalaUdf.stubPrefixes session.connectML.mlCache.memoryControl.enabled
        session.connectML.mlCache.memoryControl.maxInMemorySize session.connectML.mlCache.memoryControl.maxModelSize
        session.connectML.mlCache.memoryControl.maxStorageSize session.connectML.mlCache.memoryControl.offloadingTimeout
        session.inactiveOperations.cacheExpiration session.manager.closedSessionsTombstonesSize
        session.manager.defaultSessionTimeout session.manager.maintenanceInterval
        session.planCache.alwaysCacheDataSourceReadsEnabled session.planCache.enabled session.planCache.maxSize
        session.planCompression.defaultAlgorithm session.planCompression.threshold session.resultChunking.maxChunkSize
    """,
    "spark.deploy.": """
        appIdPattern appNumberModulo defaultCores driverIdPattern maxDrivers maxExecutorRetries recoveryCompressionCodec
        recoveryDirectory recoveryMode recoveryMode.factory recoverySerializationFilter recoveryTimeout
        retainedApplications retainedDrivers spreadOut spreadOutApps spreadOutDrivers workerSelectionPolicy
        zookeeper.dir zookeeper.url
    """,
    "spark.driver.": """
        appUIAddress bindAddress blockManager.port cores defaultExtraClassPath defaultJavaOptions extraClassPath
        extraJavaOptions extraLibraryPath host libraryPath limitActiveProcessorCount.enabled log.allowErasureCoding
        log.dfsDir log.layout log.localDir log.persistToDfs.enabled log.redirectConsoleOutputs maxResultSize memory
        memoryOverhead memoryOverheadFactor metrics.pollingInterval minMemoryOverhead port resourcesFile supervise
        timeout userClassPathFirst
    """,
    "spark.dynamicAllocation.": """
        cachedExecutorIdleTimeout enabled executorAllocationRatio executorIdleTimeout initialExecutors maxExecutors
        minExecutors schedulerBacklogTimeout shuffleTracking.enabled shuffleTracking.timeout
        sustainedSchedulerBacklogTimeout testing
    """,
    "spark.eventLog.": """
        buffer.kb compress compression.codec dir enabled erasureCoding.enabled excludedPatterns
        gcMetrics.oldGenerationGarbageCollectors gcMetrics.youngGenerationGarbageCollectors
        includeTaskMetricsAccumulators logBlockUpdates.enabled logStageExecutorMetrics longForm.enabled overwrite
        rolling.enabled rolling.maxFileSize testing
    """,
    "spark.excludeOnFailure.": """
        application.enabled application.fetchFailure.enabled application.maxFailedExecutorsPerNode
        application.maxFailedTasksPerExecutor enabled killExcludedExecutors killExcludedExecutors.decommission
        stage.maxFailedExecutorsPerNode stage.maxFailedTasksPerExecutor task.maxTaskAttemptsPerExecutor
        task.maxTaskAttemptsPerNode taskAndStage.enabled timeout
    """,
    "spark.executor.": """
        allowSparkContext cores decommission.forceKillTimeout decommission.killInterval decommission.signal
        defaultExtraClassPath defaultJavaOptions extraClassPath extraJavaOptions extraLibraryPath
        failuresValidityInterval heartbeat.dropZeroAccumulatorUpdates heartbeat.maxFailures heartbeatInterval id
        instances isolatedSessionCache.size killOnFatalError.depth limitActiveProcessorCount.enabled
        logs.redirectConsoleOutputs logs.rolling.enableCompression logs.rolling.maxRetainedFiles logs.rolling.maxSize
        logs.rolling.size.maxBytes logs.rolling.strategy logs.rolling.time.interval maxNumFailures memory memoryOverhead
        memoryOverheadFactor metrics.fileSystemSchemes metrics.pollingInterval minMemoryOverhead plugins port
        processTreeMetrics.enabled pyspark.memory python.worker.log.details syncLogLevel.enabled uri userClassPathFirst
    """,
    "spark.history.": """
        custom.executor.log.url custom.executor.log.url.applyIncompleteApplication fs.cleaner.enabled
        fs.cleaner.interval fs.cleaner.interval.seconds fs.cleaner.maxAge fs.cleaner.maxAge.seconds fs.cleaner.maxNum
        fs.driverlog.cleaner.enabled fs.driverlog.cleaner.interval fs.driverlog.cleaner.maxAge
        fs.endEventReparseChunkSize fs.eventLog.maxLineLength fs.eventLog.onDemandLoadEnabled
        fs.eventLog.rolling.compaction.score.threshold fs.eventLog.rolling.maxFilesToRetain
        fs.eventLog.rolling.onDemandLoadEnabled fs.inProgressOptimization.enabled fs.logDirectory fs.logDirectory.names
        fs.numCompactThreads fs.numReplayThreads fs.safemodeCheck.interval fs.update.batchSize fs.update.interval
        fs.update.interval.seconds fs.update.scanDisabledPathPatterns fs.updateInterval kerberos.enabled kerberos.keytab
        kerberos.principal provider retainedApplications store.hybridStore.diskBackend store.hybridStore.enabled
        store.hybridStore.maxMemoryUsage store.maxDiskUsage store.path store.serializer ui.acls.enable ui.admin.acls
        ui.admin.acls.groups ui.maxApplications ui.port ui.title updateInterval
    """,
    "spark.io.": """
        compression.codec compression.lz4.block.size compression.lz4.blockSize compression.lzf.parallel.enabled
        compression.snappy.block.size compression.snappy.blockSize compression.zstd.bufferPool.enabled
        compression.zstd.bufferSize compression.zstd.level compression.zstd.strategy compression.zstd.workers
        crypto.cipher.transformation encryption.enabled encryption.keySizeBits encryption.keygen.algorithm mode.default
        warning.largeFileThreshold
    """,
    "spark.kubernetes.": """
        allocation.batch.delay allocation.batch.size allocation.driver.readinessTimeout allocation.executor.timeout
        allocation.maxPendingPods allocation.maxPendingPodsPerRp allocation.maximum allocation.pods.allocator
        allocation.recoveryMode.enabled appKillPodDeletionGracePeriod authenticate authenticate.driver
        authenticate.driver.mounted authenticate.executor authenticate.submission configMap.maxSize container.image
        container.image.pullPolicy container.image.pullSecrets context decommission.script driver.annotateExitException
        driver.connectionTimeout driver.container.image driver.limit.cores driver.master driver.ownPersistentVolumeClaim
        driver.pod.excludedFeatureSteps driver.pod.featureSteps driver.pod.name driver.podTemplateContainerName
        driver.podTemplateFile driver.request.cores driver.requestTimeout driver.resourceNamePrefix
        driver.reusePersistentVolumeClaim driver.scheduler.name driver.securityContext.allowPrivilegeEscalation
        driver.service.deleteOnTermination driver.service.ipFamilies driver.service.ipFamilyPolicy
        driver.service.publishNotReadyAddresses driver.waitToReusePersistentVolumeClaim driverEnv.OMP_NUM_THREADS
        dynamicAllocation.deleteGracePeriod executor.apiPollingInterval executor.checkAllContainers
        executor.container.image executor.decommissionLabel executor.decommissionLabelValue executor.deleteOnTermination
        executor.deletedExecutorsCacheTimeout executor.disableConfigMap executor.enableApiPolling
        executor.enableApiWatcher executor.enablePollingWithResourceVersion executor.eventProcessingInterval
        executor.hadoopConfigMapName executor.limit.cores executor.minTasksPerExecutorBeforeRolling
        executor.missingPodDetectDelta executor.pod.excludedFeatureSteps executor.pod.featureSteps
        executor.podDeletionCost executor.podNamePrefix executor.podTemplateContainerName executor.podTemplateFile
        executor.pvc.resizeFactor executor.pvc.resizeInterval executor.pvc.resizeThreshold executor.request.cores
        executor.resizeFactor executor.resizeInterval executor.resizeThreshold executor.rollInterval executor.rollPolicy
        executor.scheduler.name executor.securityContext.allowPrivilegeEscalation executor.terminationGracePeriodSeconds
        executor.useDriverPodIP executorSnapshotsSubscribersShutdownGracePeriod file.upload.path hadoop.configMapName
        jars.avoidDownloadSchemes kerberos.dt-secret-key kerberos.dt-secret-name kerberos.krb5.configMapName
        kerberos.krb5.path kerberos.tokenSecret.itemKey kerberos.tokenSecret.name legacy.useReadWriteOnceAccessMode
        local.dirs.tmpfs memoryOverheadFactor namespace report.interval resource.type scheduler.name
        scheduler.volcano.podGroupTemplateFile scheduler.volcano.podGroupTemplateJson
        securityContext.allowPrivilegeEscalation setSubmitTimeInDriver submission.connectionTimeout
        submission.requestTimeout submission.waitAppCompletion submitInDriver trust.certificates
    """,
    "spark.master.": """
        rest.allowedAppResourcePatterns rest.enabled rest.filters rest.host rest.maxRequestBodySize rest.maxThreads
        rest.port rest.virtualThread.enabled ui.decommission.allow.mode ui.historyServerUrl ui.port ui.title
        ui.visibleEnvVarPrefixes useAppNameAsAppId.enabled useDriverIdAsAppName.enabled
    """,
    "spark.network.": """
        auth.rpcTimeout crypto.authEngineVersion crypto.cipher crypto.enabled crypto.saslFallback io.preferDirectBufs
        maxRemoteBlockSizeFetchToMem recreateWorkerGroupOnDeadEventLoop remoteReadNioBufferConversion
        sasl.maxEncryptedBlockSize sasl.serverAlwaysEncrypt sharedByteBufAllocators.enabled ssl.maxEncryptedBlockSize
        timeout timeoutInterval
    """,
    "spark.python.": """
        authenticate.socketTimeout daemon.killWorkerOnFlushFailure daemon.module factory.idleWorkerMaxPoolSize
        sql.dataFrameDebugging.enabled task.killTimeout udf.pipelined.enabled udf.pipelined.queueDepth
        unix.domain.socket.dir unix.domain.socket.enabled use.daemon worker.faulthandler.enabled
        worker.idleTimeoutSeconds worker.killOnIdleTimeout worker.module worker.reuse
        worker.tracebackDumpIntervalSeconds
    """,
    "spark.scheduler.": """
        allocation.file barrier.maxConcurrentTasksCheck.interval barrier.maxConcurrentTasksCheck.maxFailures
        blacklist.unschedulableTaskSetTimeout dropTaskInfoAccumulablesOnTaskCompletion.enabled
        excludeOnFailure.unschedulableTaskSetTimeout executorTaskBlacklistTime executorTaskExcludeOnFailureTime
        listenerbus.eventqueue listenerbus.eventqueue.capacity listenerbus.eventqueue.size listenerbus.exitTimeout
        listenerbus.logSlowEvent listenerbus.logSlowEvent.threshold listenerbus.metrics.maxListenerClassesTimed
        maxRegisteredResourcesWaitingTime maxRetainedRemovedDecommissionExecutors
        maxRetainedUnknownDecommissionExecutors minRegisteredResourcesRatio mode numCancelledJobGroupsToTrack
        pipelinedGroup.slotCheck.enabled pool resource.profileMergeConflicts revive.interval
        stage.legacyAbortAfterKillTasks streaming.idAwareLogging.enabled streaming.idAwareLogging.queryIdLength
    """,
    "spark.shuffle.": """
        accurateBlockSkewedFactor accurateBlockThreshold checksum.algorithm checksum.enabled compress detectCorrupt
        detectCorrupt.useExtraMemory file.buffer file.buffer.kb file.merge.buffer localDisk.file.output.buffer manager
        manager.incremental mapOutput.dispatcher.numThreads mapOutput.minSizeForBroadcast
        mapOutput.parallelAggregationThreshold mapStatus.compression.codec maxAccurateSkewedBlockNumber
        maxAttemptsOnNettyOOM maxChunksBeingTransferred minNumPartitionsToHighlyCompress push.enabled
        push.finalize.timeout push.maxBlockBatchSize push.maxBlockSizeToPush push.maxRetainedMergerLocations
        push.merge.finalizeThreads push.mergersMinStaticThreshold push.mergersMinThresholdRatio
        push.minCompletedPushRatio push.minShuffleSizeToWait push.numPushThreads push.results.timeout
        push.sendFinalizeRPCThreads push.server.ioExceptionsThresholdDuringMerge push.server.mergedIndexCacheSize
        push.server.mergedShuffleCleaner.shutdown.timeout push.server.mergedShuffleFileManagerImpl
        push.server.minChunkSizeInMergedShuffleFile readHostLocalDisk reduceLocality.enabled registration.maxAttempts
        registration.timeout sasl.enableRetries server.chunkFetchHandlerThreadsPercent
        server.finalizeShuffleMergeThreadsPercent service.db.backend service.db.enabled service.enabled
        service.fetch.rdd.enabled service.index.cache.entries service.index.cache.size service.name service.port
        service.removeShuffle service.verifyBlockPathsAtRead sort.bypassMergeThreshold sort.initialBufferSize
        sort.io.plugin.class sort.useRadixSort spill spill.batchSize spill.compress spill.diskWriteBufferSize
        spill.initialMemoryThreshold spill.maxSizeInBytesForSpillThreshold spill.numElementsForceSpillThreshold
        streaming.checksum.enabled streaming.networkBufferMaxWaitTimeMs streaming.networkBufferSize
        streaming.readerMaxMemory streaming.writerConnectionTimeout streaming.writerMaxMemory sync
        unsafe.fastMergeEnabled unsafe.file.output.buffer useOldFetchProtocol
    """,
    "spark.sql.": """
        CodeGenerator.validParamLength TungstenAggregate.testFallbackStartsAt adaptive.advisoryPartitionSizeInBytes
        adaptive.applyFinalStageShuffleOptimizations adaptive.autoBroadcastJoinThreshold
        adaptive.coalescePartitions.enabled adaptive.coalescePartitions.initialPartitionNum
        adaptive.coalescePartitions.maxReducerPartitionsPerTask adaptive.coalescePartitions.minPartitionNum
        adaptive.coalescePartitions.minPartitionSize adaptive.coalescePartitions.parallelismFirst
        adaptive.convertSortMergeJoinToShuffledHashJoin.enabled
        adaptive.convertSortMergeJoinToShuffledHashJoin.lookThroughOperators.enabled
        adaptive.convertSortMergeJoinToShuffledHashJoin.minWideningFactor adaptive.costEvaluator.countLocalSort.enabled
        adaptive.customCostEvaluatorClass adaptive.enabled adaptive.fetchShuffleBlocksInBatch adaptive.forceApply
        adaptive.forceOptimizeSkewedJoin adaptive.localShuffleReader.enabled adaptive.logLevel
        adaptive.maxShuffledHashJoinLocalMapThreshold adaptive.nonEmptyPartitionRatioForBroadcastJoin
        adaptive.optimizeSkewsInRebalancePartitions.enabled adaptive.optimizer.excludedRules
        adaptive.rebalancePartitionsSmallPartitionFactor adaptive.shuffle.targetPostShuffleInputSize
        adaptive.skewJoin.enabled adaptive.skewJoin.skewedPartitionFactor
        adaptive.skewJoin.skewedPartitionThresholdInBytes adaptive.streaming.stateless.enabled addPartitionInBatch.size
        allowNamedFunctionArguments alwaysInlineCommonExpr
        analyzer.allowSubqueryExpressionsInLambdasOrHigherOrderFunctions
        analyzer.canonicalization.multiCommutativeOpMemoryOptThreshold
        analyzer.dontDeduplicateExpressionIfExprIdInOutput analyzer.expandTagPassthroughDuplicates
        analyzer.failAmbiguousSelfJoin analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled analyzer.maxIterations
        analyzer.preferColumnOverLcaInArrayIndex analyzer.scalarSubqueryAllowGroupByColumnEqualToConstant
        analyzer.singlePassResolver.dualRunSampleRate analyzer.singlePassResolver.dualRunWithLegacy
        analyzer.singlePassResolver.enableAsOfJoinResolution analyzer.singlePassResolver.enabled
        analyzer.singlePassResolver.enabledTentatively analyzer.singlePassResolver.exposeResolverGuardFailure
        analyzer.singlePassResolver.preventUsingAliasesFromNonDirectChildren
        analyzer.singlePassResolver.relationBridging.enabled analyzer.singlePassResolver.returnSinglePassResultInDualRun
        analyzer.singlePassResolver.runExtendedResolutionChecks
        analyzer.singlePassResolver.runHeavyExtendedResolutionChecks analyzer.singlePassResolver.throwFromResolverGuard
        analyzer.singlePassResolver.validationEnabled analyzer.sqlFunctionResolution.applyConfOverrides
        analyzer.strictDataFrameColumnResolution analyzer.subqueryAliasAlwaysPropagateMetadataColumns
        analyzer.unionIsResolvedWhenDuplicatesPerChildResolved analyzer.uniqueNecessaryMetadataColumns
        ansi.doubleQuotedIdentifiers ansi.enabled ansi.enforceReservedKeywords ansi.relationPrecedence
        ansi.strictIndexOperator artifact.cacheStorageLevel artifact.copyFromLocalToFs.allowDestLocal
        artifact.isolation.alwaysApplyClassloader artifact.isolation.enabled assumeAnsiFalseIfNotPersisted.enabled
        autoBroadcastJoinThreshold avro.compression.codec avro.datetimeRebaseModeInRead avro.datetimeRebaseModeInWrite
        avro.deflate.level avro.filterPushdown.enabled avro.schemaUrlAllowedSchemes avro.xz.level
        avro.zstandard.bufferPool.enabled avro.zstandard.level binByRelationOperator.enabled binaryOutputStyle
        broadcastExchange.maxThreadThreshold broadcastTimeout bucketing.coalesceBucketsInJoin.enabled
        bucketing.coalesceBucketsInJoin.maxBucketRatio cache.serializer cartesianProductExec.buffer.in.memory.threshold
        cartesianProductExec.buffer.spill.size.threshold cartesianProductExec.buffer.spill.threshold caseSensitive
        catalogImplementation catalyst.type cbo.enabled cbo.joinReorder.card.weight cbo.joinReorder.dp.star.filter
        cbo.joinReorder.dp.threshold cbo.joinReorder.enabled cbo.planStats.enabled cbo.starJoinFTRatio
        cbo.starSchemaDetection charAsVarchar chunkBase64String.enabled classic.shuffleDependency.fileCleanup.enabled
        cli.print.header codegen.aggregate.fastHashMap.capacityBit codegen.aggregate.map.twolevel.enabled
        codegen.aggregate.map.twolevel.partialOnly codegen.aggregate.map.vectorized.enable
        codegen.aggregate.sortAggregate.enabled codegen.aggregate.sortAggregate.withKeys.enabled
        codegen.aggregate.splitAggregateFunc.enabled codegen.broadcastCleanedSourceThreshold codegen.cache.maxEntries
        codegen.comments codegen.compiler codegen.factoryMode codegen.fallback codegen.hugeMethodLimit
        codegen.join.buildSideOuterShuffledHashJoin.enabled codegen.join.existenceSortMergeJoin.enabled
        codegen.join.fullOuterShuffledHashJoin.enabled codegen.join.fullOuterSortMergeJoin.enabled codegen.logLevel
        codegen.logging.maxLines codegen.maxFields codegen.methodSplitThreshold codegen.splitConsumeFuncByOperator
        codegen.useIdInClassName codegen.wholeStage codegen.wholeStage.union.enabled
        codegen.wholeStage.union.maxChildren collation.allowInMapKeys collation.objectLevel.enabled
        collation.schemaLevel.enabled columnNameOfCorruptRecord columnVector.offheap.enabled connect.enrichError.enabled
        connect.serverStacktrace.enabled connect.shuffleDependency.fileCleanup.enabled
        connect.streaming.foreachBatch.useClonedSession connect.ui.retainedSessions connect.ui.retainedStatements
        constraintPropagation.enabled crossJoin.enabled csv.filterPushdown.enabled csv.parser.columnPruning.enabled
        csv.parser.inputBufferSize cteRecursionAnchorRowsLimitToConvertToLocalRelation cteRecursionLevelLimit
        cteRecursionRowLimit cteRelationDefMaxRows.enabled dataFrameQueryContext.enabled
        dataSource.alwaysCreateV2Predicate dataSource.skipAssertOnPredicatePushdown dataframeCache.logLevel
        dataset.queryExecution.id datetime.java8API.enabled debug debug.maxToStringFields
        decimalOperations.allowPrecisionLoss defaultCacheStorageLevel defaultCatalog defaultColumn.allowedProviders
        defaultColumn.enabled defaultColumn.useNullsForMissingDefaultValues defaultPath defaultSizeInBytes
        defaultUrlStreamHandlerFactory.enabled dropDuplicates.deterministicKeyOrder.enabled dropTableOnView.enabled
        enforceTypeCoercionBeforeUnionDeduplication.enabled error.messageFormat event.truncate.length exchange.reuse
        execution.arrow.cache.prefetch.enabled execution.arrow.compression.codec execution.arrow.compression.zstd.level
        execution.arrow.enabled execution.arrow.fallback.enabled execution.arrow.localRelationThreshold
        execution.arrow.maxBytesPerBatch execution.arrow.maxBytesPerOutputBatch execution.arrow.maxRecordsPerBatch
        execution.arrow.maxRecordsPerOutputBatch execution.arrow.pyspark.enabled
        execution.arrow.pyspark.fallback.enabled execution.arrow.pyspark.selfDestruct.enabled
        execution.arrow.pyspark.validateSchema.enabled execution.arrow.pythonUDF.columnarInput.enabled
        execution.arrow.sparkr.enabled execution.arrow.transformWithStateInPandas.maxRecordsPerBatch
        execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch execution.arrow.useLargeVarTypes
        execution.broadcastHashJoin.outputPartitioningExpandLimit execution.bypassPartialAggregation
        execution.combineAdjacentAggregation execution.datasources.hadoopLineRecordReader.enabled
        execution.fastFailOnFileFormatOutput execution.id execution.interruptOnCancel
        execution.pandas.convertToArrowArraySafely execution.pandas.inferPandasDictAsMap
        execution.pandas.respectSessionTimeZone execution.pandas.structHandlingMode execution.pandas.udf.buffer.size
        execution.pushDownLocalSort execution.pushDownLocalSort.throughCardinalityReducer
        execution.pyspark.binaryAsBytes execution.pyspark.python execution.pyspark.udf.daemonKillWorkerOnFlushFailure
        execution.pyspark.udf.faulthandler.enabled execution.pyspark.udf.hideTraceback.enabled
        execution.pyspark.udf.idleTimeoutSeconds execution.pyspark.udf.killOnIdleTimeout
        execution.pyspark.udf.simplifiedTraceback.enabled execution.pyspark.udf.tracebackDumpIntervalSeconds
        execution.pyspark.udf.tracebackWithLocals.enabled execution.python.udf.buffer.size
        execution.python.udf.maxBytesPerBatch execution.python.udf.maxRecordsPerBatch
        execution.pythonUDF.arrow.concurrency.level execution.pythonUDF.arrow.enabled
        execution.pythonUDF.arrow.legacy.fallbackOnUDT execution.pythonUDF.mapInBatch.legacy.acceptAnyIterable.enabled
        execution.pythonUDF.pandas.intToDecimalCoercionEnabled execution.pythonUDF.pandas.preferIntExtensionDtype
        execution.pythonUDTF.arrow.enabled execution.query.id execution.rangeExchange.sampleSizePerPartition
        execution.removeRedundantProjects execution.removeRedundantSorts execution.replaceHashWithSortAgg
        execution.reuseSubquery execution.root.id execution.sortBeforeRepartition execution.topKSortFallbackThreshold
        execution.udf.unified.execution.enabled execution.useHashAggregateExec execution.useObjectHashAggregateExec
        execution.usePartitionEvaluator experimental.optimizer.pyTranspilers experimental.optimizer.transpilePyUDFs
        expressionTreeChangeLog.level extendedExplainProviders extensions extensions.test.loadFromCp
        fileSource.insert.enforceNotNull files.archive.reader.enabled files.ignoreCorruptFiles
        files.ignoreInvalidPartitionPaths files.ignoreMissingFiles files.ignoredPathSegmentRegex files.maxPartitionBytes
        files.maxPartitionNum files.maxRecordsPerFile files.minPartitionNum files.openCostInBytes
        files.supportSecondOffsetFormat filesourceTableRelationCacheSize fromJsonForceNullableSchema
        function.concatBinaryAsString function.eltOutputAsString function.protobufExtensions.enabled
        functionResolution.sessionOrder generatedColumn.allowNullableIngest.enabled geospatial.enabled
        globalTempDatabase groupByAliases groupByOrdinal hive.advancedPartitionPredicatePushdown.enabled
        hive.caseSensitiveInferenceMode hive.convertCTAS hive.convertInsertingPartitionedTable
        hive.convertInsertingUnpartitionedTable hive.convertMetastoreAsNullable hive.convertMetastoreCtas
        hive.convertMetastoreInsertDir hive.convertMetastoreOrc hive.convertMetastoreParquet
        hive.convertMetastoreParquet.mergeSchema hive.dropPartitionByName.enabled hive.filesourcePartitionFileCacheSize
        hive.gatherFastStats hive.initializeMetastoreFormatClasses hive.manageFilesourcePartitions
        hive.metastore.barrierPrefixes hive.metastore.jars hive.metastore.jars.path hive.metastore.sharedPrefixes
        hive.metastore.version hive.metastorePartitionPruning hive.metastorePartitionPruningFallbackOnException
        hive.metastorePartitionPruningFastFallback hive.metastorePartitionPruningInSetThreshold
        hive.showCreateTableAsSerde hive.tablePropertyLengthThreshold hive.thriftServer.async
        hive.thriftServer.http.sniHostCheckEnabled hive.thriftServer.singleSession
        hive.useDelegateForSymlinkTextInputFormat hive.verifyPartitionPath hive.version icu.caseMappings.enabled
        inMemoryColumnarStorage.batchSize inMemoryColumnarStorage.compressed
        inMemoryColumnarStorage.enableVectorizedReader inMemoryColumnarStorage.hugeVectorReserveRatio
        inMemoryColumnarStorage.hugeVectorThreshold inMemoryColumnarStorage.partitionPruning
        inMemoryTableScanStatistics.enable insertIntoReplaceOn.enabled insertIntoReplaceOnByName.enabled
        insertIntoReplaceUsing.enabled insertIntoReplaceUsingByName.enabled insertIntoReplaceWhereColumnList.enabled
        insertNestedTypeCoercion.enabled join.asofJoin.enabled join.forceApplyShuffledHashJoin join.preferSortMergeJoin
        join.sortMergeAsOfJoin.enabled join.splitStreamedSideJoinCondition json.enableExactStringParsing
        json.enablePartialResults json.filterPushdown.enabled json.useUnsafeRow jsonGenerator.ignoreNullFields
        jsonGenerator.writeNullIfWithDefaultValue kafka.disallowedOptions kafkaConsumerCache.capacity
        lateralColumnAlias.enableImplicitResolution lazySetOperatorOutput.enabled leafNodeDefaultParallelism
        legacy.addSingleFileInAddFile legacy.allowAutoGeneratedAliasForView
        legacy.allowCreatingManagedTableUsingNonemptyLocation legacy.allowEmptySchemaWrite legacy.allowHashOnMapType
        legacy.allowNegativeScaleOfDecimal legacy.allowNonEmptyLocationInCTAS
        legacy.allowNullComparisonResultInArraySort legacy.allowParameterlessCount
        legacy.allowSessionVariableInPersistedView legacy.allowStarWithSingleTableIdentifierInCount
        legacy.allowTempViewCreationWithMultipleNameparts legacy.allowUdfParameterToShadowParameterlessFunction
        legacy.allowUntypedScalaUDF legacy.allowZeroIndexInFormatString legacy.avro.allowIncompatibleSchema
        legacy.avro.datetimeRebaseModeInRead legacy.avro.datetimeRebaseModeInWrite legacy.bangEqualsNot
        legacy.blockCreateTempTableUsingProvider legacy.bucketedTableScan.outputOrdering
        legacy.castComplexTypesToString.enabled legacy.charVarcharAsString legacy.codingErrorAction
        legacy.collationAwareHashFunctions legacy.compareDateTimestampInTimestamp
        legacy.consecutiveStringLiterals.enabled legacy.createEmptyCollectionUsingStringType
        legacy.createHiveTableByDefault legacy.csv.enableDateTimeParsingFallback legacy.cteDuplicateAttributeNames
        legacy.ctePrecedencePolicy legacy.dataFrameWriterV2IgnorePathOption
        legacy.dataset.nameNonStructGroupingKeyAsValue legacy.db2.booleanMapping.enabled
        legacy.db2.numericMapping.enabled legacy.decimal.retainFractionDigitsOnTruncate
        legacy.disableMapKeyNormalization legacy.doLooseUpcast legacy.duplicateBetweenInput legacy.earlyEvalCurrentTime
        legacy.emptyCurrentDBInCli legacy.execution.pandas.groupedMap.assignColumnsByName
        legacy.execution.pythonUDF.pandas.conversion.enabled legacy.execution.pythonUDTF.pandas.conversion.enabled
        legacy.exponentLiteralAsDecimal.enabled legacy.extraOptionsBehavior.enabled
        legacy.followThreeValuedLogicInArrayExists legacy.fromDayTimeString.enabled
        legacy.groupingIdWithAppendedUserGroupBy legacy.histogramNumericPropagateInputType
        legacy.hive.thriftServer.allowSettingSystemProperties legacy.hive.thriftServer.useZeroBasedColumnOrdinalPosition
        legacy.identifierClause legacy.inSubqueryNullability legacy.inlineCTEInCommands legacy.integerGroupingId
        legacy.interval.enabled legacy.javaCharsets legacy.jdbc.timeMapping.enabled legacy.json.allowEmptyString.enabled
        legacy.json.enableDateTimeParsingFallback legacy.keepCommandOutputSchema legacy.keepPartitionSpecAsStringLiteral
        legacy.literal.pickMinimumPrecision legacy.lpadRpadAlwaysReturnString
        legacy.mssqlserver.datetimeoffsetMapping.enabled legacy.mssqlserver.numericMapping.enabled
        legacy.mysql.bitArrayMapping.enabled legacy.mysql.timestampNTZMapping.enabled legacy.negativeIndexInArrayInsert
        legacy.noCharPaddingInPredicate legacy.notReserveProperties legacy.nullInEmptyListBehavior
        legacy.nullValueWrittenAsQuotedEmptyStringCsv legacy.observeMetricsAggregateAllAttempts
        legacy.oracle.timestampMapping.enabled legacy.parameterSubstitution.constantsOnly
        legacy.parquet.datetimeRebaseModeInRead legacy.parquet.datetimeRebaseModeInWrite
        legacy.parquet.int96RebaseModeInRead legacy.parquet.int96RebaseModeInWrite legacy.parquet.nanosAsLong
        legacy.parquet.returnNullStructIfAllFieldsMissing legacy.parseNullPartitionSpecAsStringLiteral
        legacy.parseQueryWithoutEof legacy.parser.havingWithoutGroupByAsWhere legacy.pathOptionBehavior.enabled
        legacy.percentileDiscCalculation legacy.persistentCatalogFirst legacy.postgres.datetimeMapping.enabled
        legacy.raiseErrorWithoutErrorClass legacy.readFileSourceTableCacheIgnoreOptions
        legacy.replaceDatabricksSparkAvro.enabled legacy.respectNullabilityInTextDatasetConversion
        legacy.scalarSubqueryAllowGroupByNonEqualityCorrelatedPredicate legacy.scalarSubqueryCountBugBehavior
        legacy.sessionInitWithConfigDefaults legacy.setCommandRejectsSparkCoreConfs legacy.setopsPrecedence.enabled
        legacy.sizeOfNull legacy.skipTypeValidationOnAlterPartition legacy.statisticalAggregate
        legacy.storeAnalyzedPlanForView legacy.timeParserPolicy legacy.truncateForEmptyRegexSplit
        legacy.typeCoercion.datetimeToString.enabled legacy.useCurrentConfigsForView legacy.useLegacyXMLParser
        legacy.useV1Command legacy.v1IdentifierNoCatalog legacy.viewSchemaBindingMode legacy.viewSchemaCompensation
        lightweightPlanChangeValidation limit.initialNumPartitions limit.scaleUpFactor
        listagg.allowDistinctCastWithOrder.enabled mapKeyDedupPolicy mapZipWithUsesJavaCollections
        maven.additionalRemoteRepositories maxBroadcastTableSize maxConcurrentOutputFileWriters maxMetadataStringLength
        maxPlanStringLength maxSinglePartitionBytes mergeNestedTypeCoercion.enabled metadataCacheTTLSeconds
        nameResolutionLog.level objectHashAggregate.sortBased.fallbackThreshold operatorPipeSyntaxEnabled
        optimizeNullAwareAntiJoin optimizeNullAwareAntiJoin.broadcastThreshold
        optimizer.avoidCollapseUDFWithExpensiveExpr optimizer.avoidDoubleFilterEval
        optimizer.canChangeCachedPlanOutputPartitioning optimizer.collapseProjectAlwaysInline
        optimizer.datasourceV2ExprFolding optimizer.datasourceV2JoinPushdown
        optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled optimizer.decorrelateInnerQuery.enabled
        optimizer.decorrelateJoinPredicate.enabled optimizer.decorrelateLimit.enabled
        optimizer.decorrelateLimitOffsetLegacyIncorrectOrderHandling.enabled optimizer.decorrelateOffset.enabled
        optimizer.decorrelatePredicateSubqueriesInJoinPredicate.enabled optimizer.decorrelateSetOps.enabled
        optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled
        optimizer.decorrelateSubqueryPreventConstantHoldingForCountBug.enabled
        optimizer.decorrelateUnionOrSetOpUnderLimit.enabled optimizer.disableHints
        optimizer.dynamicPartitionPruning.broadcastProjection.enabled
        optimizer.dynamicPartitionPruning.broadcastProjection.maxBytes
        optimizer.dynamicPartitionPruning.broadcastProjection.maxRows
        optimizer.dynamicPartitionPruning.broadcastProjection.maxSourceBytes optimizer.dynamicPartitionPruning.enabled
        optimizer.dynamicPartitionPruning.fallbackFilterRatio optimizer.dynamicPartitionPruning.reuseBroadcastOnly
        optimizer.dynamicPartitionPruning.useStats optimizer.enableCsvExpressionOptimization
        optimizer.enableJsonExpressionOptimization optimizer.excludeSubqueryRefsFromRemoveRedundantAliases.enabled
        optimizer.excludedRules optimizer.expression.nestedPruning.enabled optimizer.expressionProjectionCandidateLimit
        optimizer.getJsonObjectSharedParsing.enabled optimizer.inSetConversionThreshold optimizer.inSetSwitchThreshold
        optimizer.insertMapSortInDistinctAggregates.enabled optimizer.mapLookupHashThreshold optimizer.maxIterations
        optimizer.mergeSubplans.filterPropagation.dsv2SymmetricFilterPropagation.enabled
        optimizer.mergeSubplans.filterPropagation.enabled
        optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled
        optimizer.mergeSubplans.filterPropagation.throughJoin.enabled optimizer.metadataOnly
        optimizer.nestedPredicatePushdown.supportedFileSources optimizer.nestedSchemaPruning.enabled
        optimizer.optimizeExpandRatio optimizer.optimizeOneRowRelationSubquery
        optimizer.optimizeOneRowRelationSubquery.alwaysInline
        optimizer.optimizeUncorrelatedInSubqueriesInJoinCondition.enabled optimizer.planChangeLog.batches
        optimizer.planChangeLog.level optimizer.planChangeLog.rules optimizer.plannedWrite.enabled
        optimizer.preserveAliasMetadataWhenCollapsingProjects optimizer.propagateDistinctKeys.enabled
        optimizer.pruneFiltersCanPruneStreamingSubplan optimizer.pullHintsIntoSubqueries
        optimizer.pullOutNestedDataOuterRefExpressions.enabled optimizer.pushDownJoinThroughUnion.enabled
        optimizer.replaceExceptWithFilter optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold
        optimizer.runtime.bloomFilter.creationSideThreshold optimizer.runtime.bloomFilter.enabled
        optimizer.runtime.bloomFilter.expectedNumItems optimizer.runtime.bloomFilter.materializedCreationSideThreshold
        optimizer.runtime.bloomFilter.maxNumBits optimizer.runtime.bloomFilter.maxNumItems
        optimizer.runtime.bloomFilter.numBits optimizer.runtime.rowLevelOperationGroupFilter.enabled
        optimizer.runtimeFilter.number.threshold optimizer.runtimeFilter.semiJoinReduction.enabled
        optimizer.scalarSubqueryUseSingleJoin optimizer.serializer.nestedSchemaPruning.enabled
        optimizer.singleTaskExecution.aggregation optimizer.singleTaskExecution.enabled
        optimizer.singleTaskExecution.expand optimizer.singleTaskExecution.limitOffset
        optimizer.singleTaskExecution.localTableScan.minRows optimizer.singleTaskExecution.localTableScan.threshold
        optimizer.singleTaskExecution.maxNumFiles optimizer.singleTaskExecution.minNumBytes
        optimizer.singleTaskExecution.minNumFiles optimizer.singleTaskExecution.sort
        optimizer.singleTaskExecution.window optimizer.windowGroupLimitThreshold optimizer.wrapExistsInAggregateFunction
        orc.aggregatePushdown orc.columnarReaderBatchSize orc.columnarWriterBatchSize orc.compression.codec
        orc.enableNestedColumnVectorizedReader orc.enableVectorizedReader orc.filterPushdown orc.impl orc.mergeSchema
        orderByOrdinal orderingAwareLimitOffset parquet.aggregatePushdown parquet.binaryAsString
        parquet.columnarReaderBatchSize parquet.compression.codec parquet.datetimeRebaseModeInRead
        parquet.datetimeRebaseModeInWrite parquet.enableNestedColumnVectorizedReader
        parquet.enableNullTypeVectorizedReader parquet.enableVectorizedReader parquet.fieldId.read.enabled
        parquet.fieldId.read.ignoreMissing parquet.fieldId.write.enabled parquet.filterPushdown
        parquet.filterPushdown.date parquet.filterPushdown.decimal parquet.filterPushdown.string.startsWith
        parquet.filterPushdown.stringPredicate parquet.filterPushdown.timestamp parquet.ignoreVariantAnnotation
        parquet.inferTimestampNTZ.enabled parquet.int64AsTimestampMillis parquet.int96AsTimestamp
        parquet.int96RebaseModeInRead parquet.int96RebaseModeInWrite parquet.int96TimestampConversion
        parquet.mergeSchema parquet.output.committer.class parquet.outputTimestampType
        parquet.pushdown.inFilterThreshold parquet.reader.respectUnknownTypeAnnotation.enabled
        parquet.recordLevelFilter.enabled parquet.respectSummaryFiles parquet.variant.annotateLogicalType.enabled
        parquet.writeLegacyFormat parser.eagerEvalOfUnresolvedInlineTable parser.escapedStringLiterals
        parser.manageParserCaches parser.parserDfaCacheFlushRatio parser.parserDfaCacheFlushThreshold
        parser.quotedRegexColumnNames parser.singleCharacterPipeOperator.enabled path.enabled
        pipelines.event.queue.capacity pipelines.execution.maxConcurrentFlows
        pipelines.execution.streamstate.pollingInterval pipelines.execution.watchdog.maxRetryTime
        pipelines.execution.watchdog.minRetryTime pipelines.maxFlowRetryAttempts
        pipelines.timeoutMsForTerminationJoinAndLock pivotMaxValues planChangeLog.batches planChangeLog.level
        planChangeLog.rules planChangeValidation planChangeValidation.nullability planner.pythonExecution.memory
        preserveCharVarcharTypeInfo prioritizeOrdinalResolutionInSort.enabled protobuf.descriptorCacheSize
        pyspark.dataSource.profiler pyspark.inferNestedDictAsStruct.enabled pyspark.jvmStacktrace.enabled
        pyspark.legacy.inferArrayTypeFromFirstElement.enabled pyspark.legacy.inferMapTypeFromFirstPair.enabled
        pyspark.plotting.max_rows pyspark.toJSON.returnDataFrame pyspark.udf.profiler pyspark.worker.logging.enabled
        python.filterPushdown.enabled queryExecutionListeners readSideCharPadding redaction.options.regex
        redaction.string.regex reflect.allowList repl.eagerEval.enabled repl.eagerEval.maxNumRows
        repl.eagerEval.truncate requireAllClusterKeysForCoPartition requireAllClusterKeysForDistribution
        restrictedMode.enabled resultQueryStage.maxThreadThreshold retainGroupColumns
        runCollationTypeCastsBeforeAliasAssignment.enabled runSQLOnFiles scriptTransformation.exitTimeoutInSeconds
        scripting.continueHandlerEnabled scripting.cursorEnabled scripting.enabled selfJoinAutoResolveAmbiguity
        session.localRelationBatchOfChunksSizeBytes session.localRelationCacheThreshold
        session.localRelationChunkSizeBytes session.localRelationChunkSizeLimit session.localRelationChunkSizeRows
        session.localRelationSizeLimit session.timeZone sessionWindow.buffer.in.memory.threshold
        sessionWindow.buffer.spill.size.threshold sessionWindow.buffer.spill.threshold
        shuffle.orderIndependentChecksum.enableFullRetryOnMismatch
        shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch shuffle.orderIndependentChecksum.enabled
        shuffle.partitions shuffle.spreadNullJoinKeys.enabled shuffleDependency.fileCleanup.enabled
        shuffleDependency.skipMigration.enabled shuffleExchange.maxThreadThreshold shuffledHashJoinFactor
        sort.enableRadixSort sortMergeJoinExec.buffer.in.memory.threshold sortMergeJoinExec.buffer.spill.size.threshold
        sortMergeJoinExec.buffer.spill.threshold sources.binaryFile.maxLength sources.bucketing.autoBucketedScan.enabled
        sources.bucketing.enabled sources.bucketing.maxBuckets sources.commitProtocolClass sources.default
        sources.disabledJdbcConnProviderList sources.fileCompressionFactor sources.ignoreDataLocality
        sources.outputCommitterClass sources.parallelPartitionDiscovery.parallelism
        sources.parallelPartitionDiscovery.threshold sources.partitionColumnTypeInference.enabled
        sources.partitionOverwriteMode sources.schemaStringLengthThreshold sources.structPredicateDecompose.enabled
        sources.structPredicateDecompose.maxFields sources.useListFilesFileSystemList sources.useV1SourceList
        sources.v2.bucketing.allowCompatibleTransforms.enabled
        sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled
        sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled sources.v2.bucketing.enabled
        sources.v2.bucketing.partiallyClusteredDistribution.enabled sources.v2.bucketing.partition.filter.enabled
        sources.v2.bucketing.partitionKeyOrdering.enabled sources.v2.bucketing.preserveKeyOrderingOnCoalesce.enabled
        sources.v2.bucketing.preserveOrderingOnCoalesce.enabled sources.v2.bucketing.pushPartValues.enabled
        sources.v2.bucketing.shuffle.enabled sources.v2.bucketing.sorting.enabled sources.validatePartitionColumns
        sources.writeJobUUID stableDerivedColumnAlias.enabled stackTracesInDataFrameContext statistics.fallBackToHdfs
        statistics.histogram.enabled statistics.histogram.numBins statistics.ndv.maxError
        statistics.parallelFileListingInStatsComputation.enabled statistics.percentile.accuracy
        statistics.size.autoUpdate.enabled statistics.updatePartitionStatsInAnalyzeTable.enabled storeAssignmentPolicy
        streaming.aggregation.stateFormatVersion streaming.asyncLogPurge.enabled
        streaming.checkUnfinishedRepartitionOnRestart streaming.checkpoint.escapedPathCheck.enabled
        streaming.checkpoint.fileChecksum.enabled streaming.checkpoint.fileChecksum.skipCreationIfFileMissingChecksum
        streaming.checkpoint.renamedFileCheck.enabled streaming.checkpoint.verifyMetadataExists.enabled
        streaming.checkpointFileManagerClass streaming.checkpointLocation streaming.commitProtocolClass
        streaming.continuous.epochBacklogQueueSize streaming.continuous.executorPollIntervalMs
        streaming.continuous.executorQueueSize streaming.disabledV2MicroBatchReaders streaming.disabledV2Writers
        streaming.fileSink.log.cleanupDelay streaming.fileSink.log.compactInterval streaming.fileSink.log.deletion
        streaming.fileSource.cleaner.numThreads streaming.fileSource.log.cleanupDelay
        streaming.fileSource.log.compactInterval streaming.fileSource.log.deletion
        streaming.fileSource.schema.forceNullable streaming.fileStreamSink.ignoreMetadata
        streaming.flatMapGroupsWithState.skipEmittingInitialStateKeys
        streaming.flatMapGroupsWithState.stateFormatVersion streaming.forceDeleteTempCheckpointLocation
        streaming.internal.stateStore.partitions streaming.join.stateFormatVersion
        streaming.kafka.useDeprecatedOffsetFetching streaming.maxBatchesToRetainInMemory streaming.metadataCache.enabled
        streaming.metricsEnabled streaming.minBatchesToRetain streaming.multipleWatermarkPolicy
        streaming.noDataMicroBatches.enabled streaming.noDataProgressEventInterval streaming.numRecentProgressUpdates
        streaming.offsetLog.formatVersion streaming.optimizeOneRowPlan.enabled streaming.pollingDelay
        streaming.queryEvolution.enableSinkEvolution streaming.queryEvolution.enableSourceEvolution
        streaming.ratioExtraSpaceAllowedInCheckpoint streaming.realTimeMode.allowlistCheck
        streaming.realTimeMode.asyncProgressTrackingByDefault.enabled
        streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled streaming.realTimeMode.minBatchDuration
        streaming.realTimeMode.transformWithState.ttlEvictionIntervalMs streaming.schemaInference
        streaming.sessionWindow.merge.sessions.in.local.partition streaming.sessionWindow.stateFormatVersion
        streaming.stateStore.autoSnapshotRepair.enabled streaming.stateStore.autoSnapshotRepair.maxChangeFileReplay
        streaming.stateStore.autoSnapshotRepair.numFailuresBeforeActivating streaming.stateStore.checkpointFormatVersion
        streaming.stateStore.commitValidation.enabled streaming.stateStore.compression.codec
        streaming.stateStore.coordinatorReportSnapshotUploadLag streaming.stateStore.encodingFormat
        streaming.stateStore.fileChecksumThreadPoolSize streaming.stateStore.forceSnapshotUploadOnLag
        streaming.stateStore.formatValidation.enabled streaming.stateStore.maintenanceForceShutdownTimeout
        streaming.stateStore.maintenanceInterval streaming.stateStore.maintenanceProcessingTimeout
        streaming.stateStore.maintenanceShutdownTimeout streaming.stateStore.maxLaggingStoresToReport
        streaming.stateStore.maxNumStateSchemaFiles streaming.stateStore.maxVersionsToDeletePerMaintenance
        streaming.stateStore.minDeltasForSnapshot streaming.stateStore.multiplierForMinTimeDiffToLog
        streaming.stateStore.multiplierForMinVersionDiffToLog streaming.stateStore.numStateStoreInstanceMetricsToReport
        streaming.stateStore.numStateStoreMaintenanceThreads streaming.stateStore.providerClass
        streaming.stateStore.rocksdb streaming.stateStore.rocksdb.formatVersion
        streaming.stateStore.rocksdb.mergeOperatorVersion streaming.stateStore.rowChecksum.enabled
        streaming.stateStore.rowChecksum.readVerificationRatio
        streaming.stateStore.skipNullsForStreamStreamJoins.enabled streaming.stateStore.snapshotLagReportInterval
        streaming.stateStore.snapshotToCleanupThreadRatio streaming.stateStore.stateSchemaCheck
        streaming.stateStore.unloadOnCommit streaming.stateStore.valueStateSchemaEvolutionThreshold
        streaming.statefulOperator.allowMultiple streaming.statefulOperator.alwaysNullableOutput.enabled
        streaming.statefulOperator.checkCorrectness.enabled streaming.statefulOperator.incrementalCleanupFactor
        streaming.statefulOperator.useStrictDistribution streaming.stopActiveRunOnRestart streaming.stopTimeout
        streaming.streamingQueryListeners streaming.transformWithState.stateSchemaVersion
        streaming.triggerAvailableNowWrapper.enabled streaming.ui.enabled streaming.ui.enabledCustomMetricList
        streaming.ui.retainedProgressUpdates streaming.ui.retainedQueries streaming.unsupportedOperationCheck
        streaming.useStreamlineAggregator streaming.validateEventTimeWatermarkColumn
        streaming.verifyCheckpointDirectoryEmptyOnStart subexpressionElimination.cache.maxEntries
        subexpressionElimination.enabled subexpressionElimination.filterExec.enabled
        subexpressionElimination.skipForShortcutExpr subquery.maxThreadThreshold test.forceApplyObjectHashAggregate
        test.localRelationRowCount thriftServer.catalogMetadata.enabled thriftServer.incrementalCollect
        thriftServer.interruptOnCancel thriftServer.queryTimeout thriftserver.scheduler.pool
        thriftserver.shuffleDependency.fileCleanup.enabled thriftserver.ui.retainedSessions
        thriftserver.ui.retainedStatements timeTravel.atSyntax.enabled timeTravelTimestampKey timeTravelVersionKey
        timeType.enabled timestampNanosTypes.enabled timestampType transposeMaxValues
        truncateTable.ignorePermissionAcl.enabled tvf.allowMultipleTableArguments.enabled udt.allowCreatingUDTFromString
        udt.allowedDynamicUDTClasses ui.explainMode ui.retainedExecutions unionOutputPartitioning
        useCommonExprIdForAlias variable.substitute variant.allowDuplicateKeys variant.allowReadingShredded
        variant.forceShreddingSchemaForTest variant.inferShreddingSchema variant.pushVariantIntoScan
        variant.pushVariantIntoScan.deferCastError variant.pushVariantIntoScan.pullOutExtractions
        variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth variant.validateUnicodeInJsonParsing
        variant.writeShredding.enabled view.maxNestedViewDepth warehouse.dir window.segmentTree.blockSize
        window.segmentTree.enabled window.segmentTree.fanout window.segmentTree.minPartitionRows
        windowExec.buffer.in.memory.threshold windowExec.buffer.spill.size.threshold windowExec.buffer.spill.threshold
        xml.schemaInference.incrementalTypeCasting.enabled xml.variant.respectInferSchema
    """,
    "spark.ssl.": """
        rpc rpc.certChain rpc.enabled rpc.enabledAlgorithms rpc.keyPassword rpc.keyStore rpc.keyStorePassword
        rpc.openSslEnabled rpc.privateKey rpc.privateKeyPassword rpc.protocol rpc.trustStore rpc.trustStorePassword
        rpc.trustStoreReloadIntervalMs rpc.trustStoreReloadingEnabled useNodeLocalConf
    """,
    "spark.storage.": """
        blockManagerHeartbeatTimeoutMs blockManagerMasterDriverHeartbeatTimeoutMs blockManagerSlaveTimeoutMs
        blockManagerTimeoutIntervalMs cachedPeersTtl cleanupFilesAfterExecutorExit decommission.enabled
        decommission.fallbackStorage.cleanUp decommission.fallbackStorage.path
        decommission.maxReplicationFailuresPerBlock decommission.rddBlocks.enabled
        decommission.replicationReattemptInterval decommission.shuffleBlocks.bufferRacingMigrations
        decommission.shuffleBlocks.enabled decommission.shuffleBlocks.maxDiskSize decommission.shuffleBlocks.maxThreads
        exceptionOnPinLeak localDiskByExecutors.cacheSize maxReplicationFailures memoryMapLimitForTests
        memoryMapThreshold rddBlockChecksum.algorithm rddBlockChecksum.enabled rddBlockChecksum.verifyOnReplication
        replication.policy replication.proactive replication.topologyFile replication.topologyMapper
        shuffleManager.initWaitingTimeout unrollMemoryCheckPeriod unrollMemoryGrowthFactor unrollMemoryThreshold
    """,
    "spark.streaming.": """
        backpressure.enabled backpressure.initialRate backpressure.pid.derived backpressure.pid.integral
        backpressure.pid.minRate backpressure.pid.proportional backpressure.rateEstimator blockInterval blockQueueSize
        checkpoint.directory clock concurrentJobs driver.writeAheadLog.allowBatching
        driver.writeAheadLog.batchingTimeout driver.writeAheadLog.class driver.writeAheadLog.closeFileAfterWrite
        driver.writeAheadLog.maxFailures driver.writeAheadLog.rollingIntervalSecs dynamicAllocation.enabled
        dynamicAllocation.maxExecutors dynamicAllocation.minExecutors dynamicAllocation.scalingDownRatio
        dynamicAllocation.scalingInterval dynamicAllocation.scalingUpRatio dynamicAllocation.testing extraListeners
        fileStream.minRememberDuration gracefulStopTimeout internal.batchTime internal.outputOpId manualClock.jump
        minRememberDuration raw.maxBlockSizeBytes receiver.blockStoreTimeout receiver.maxRate
        receiver.writeAheadLog.class receiver.writeAheadLog.closeFileAfterWrite receiver.writeAheadLog.enable
        receiver.writeAheadLog.maxFailures receiver.writeAheadLog.rollingIntervalSecs receiverRestartDelay
        sessionByKey.deltaChainThreshold stopGracefullyOnShutdown stopSparkContextByDefault ui.retainedBatches unpersist
    """,
    "spark.testing.": """
        dynamicAllocation.schedule.enabled injectShuffleFetchFailures injectShuffleFetchFailuresDownstreamDelay
        injectShuffleFetchFailuresResultStageDelay injectShuffleForceChecksumMismatchOnRecompute memory
        nCoresPerExecutor nExecutorsPerHost nHosts reservedMemory resourceProfileManager skipESSRegister
        skipValidateCores
    """,
    "spark.ui.": """
        actionsViaGetEnabled allowFramingFrom consoleProgress.update.interval contentSecurityPolicy.enabled
        contentSecurityPolicy.frameAncestors.enabled custom.executor.log.url dagGraph.retainedRootRDDs enabled filters
        groupSQLSubExecutionEnabled heapHistogramEnabled jetty.sniHostCheckEnabled jetty.stopTimeout jettyStopTimeout
        killEnabled liveUpdate.minFlushPeriod liveUpdate.period port prometheus.enabled proxyBase proxyRedirectUri
        requestHeaderSize retainedDeadExecutors retainedJobs retainedStages retainedTasks reverseProxy reverseProxyUrl
        showConsoleProgress showErrorStacks store.path strictTransportSecurity threadDump.flamegraphEnabled
        threadDumpsEnabled timeline.executors.maximum timeline.jobs.maximum timeline.stages.maximum
        timeline.tasks.maximum timelineEnabled view.acls view.acls.groups xContentTypeOptions.enabled xXssProtection
    """,
    "spark.worker.": """
        cleanup.appDataTtl cleanup.enabled cleanup.interval decommission.signal driverTerminateTimeout
        executorStateSync.maxAttempts idPattern initialRegistrationRetries maxRegistrationRetries
        preferConfiguredMasterAddress resourcesFile timeout ui.compressedLogFileLengthCacheSize ui.port
        ui.retainedDrivers ui.retainedExecutors
    """,
    "spark.yarn.": """
        access.hadoopFileSystems access.namenodes am.attemptFailuresValidityInterval am.clientModeExitOnError
        am.clientModeTreatDisconnectAsFailed am.cores am.defaultJavaOptions am.extraJavaOptions am.extraLibraryPath
        am.finalMessageLimit am.limitActiveProcessorCount.enabled am.memory am.memoryOverhead am.nodeLabelExpression
        am.port am.tokenConfRegex am.waitTime app.attemptId app.id appMasterEnv.OMP_NUM_THREADS
        applicationMaster.waitTries applicationType archive blacklist.executor.launch.blacklisting.enabled
        cache.confArchive cache.filenames cache.sizes cache.timestamps cache.types cache.visibilities
        client.statCache.preload.enabled client.statCache.preload.perDirectoryThreshold clientLaunchMonitorInterval
        config.gatewayPath config.replacementPath containerLauncherMaxThreads credentials.file.retention.count
        credentials.file.retention.days dist.archives dist.files dist.forceDownloadSchemes dist.jars dist.pyFiles
        driver.memoryOverhead exclude.nodes executor.failuresValidityInterval executor.launch.excludeOnFailure.enabled
        executor.memoryOverhead executor.nodeLabelExpression executor.oomKill.enabled historyServer.address
        historyServer.allowTracking includeDriverLogsLink isHadoopProvided isPython jar jars kerberos.relogin.period
        kerberos.renewal.excludeHadoopFileSystems keytab launchContainers max.executor.failures max.worker.failures
        maxAppAttempts metrics.namespace populateHadoopClasspath preserve.staging.files principal priority queue
        report.interval report.loggingFrequency resourceFpgaDeviceName resourceGpuDeviceName rolledLog.excludePattern
        rolledLog.includePattern scheduler.heartbeat.interval-ms scheduler.initial-allocation.interval
        scheduler.reporterThread.maxFailures secondary.jars services shuffle.server.recovery.disabled stagingDir
        submit.file.replication submit.waitAppCompletion tags unmanagedAM.enabled user.classpath.first user.jar
    """,
}
