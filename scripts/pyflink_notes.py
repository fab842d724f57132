"""What is said about names of PyFlink that are different or absent here: patterns of paths, the first match counts."""

_JAVA = "Java objects"
_JAR = f"{_JAVA}: it wraps the classes of a jar that PyFlink does not bring"
"""Of connectors that are projects of their own."""
_SPARK_HAS_IT = "`env.from_dataframe` and `stream.to_spark` use Spark's connector"
_TABLE = "Table API"

ABSENT: dict[str, str] = {
    "common.AssignerWithPeriodicWatermarksWrapper": _JAVA,
    "common.io*": f"{_JAVA}: it wraps an InputFormat of Java",
    "common.typeinfo.TypeInformation.get_java_type_info": _JAVA,
    "common.typeinfo.TypeInformation.*": f"{_JAVA}: values are not converted for a JVM",
    "common.types.RowKind.to_j_row_kind": _JAVA,
    "common.utils*": _JAVA,
    "common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": _JAVA,
    "datastream.CustomCheckpointStorage": f"{_JAVA}: it wraps a storage of Java",
    "datastream.CustomStateBackend": f"{_JAVA}: it wraps a backend of Java; `register_backend` takes one in Python",
    "datastream.checkpoint_storage.CustomCheckpointStorage": f"{_JAVA}: it wraps a storage of Java",
    "datastream.state_backend.CustomStateBackend": (
        f"{_JAVA}: it wraps a backend of Java; `register_backend` takes one in Python"
    ),
    "datastream.connectors.cassandra*": f"{_JAR}; {_SPARK_HAS_IT}",
    "datastream.connectors.dynamic_kafka*": f"{_JAR}; `KafkaSource` reads topics by a pattern, and finds new ones",
    "datastream.connectors.elasticsearch*": f"{_JAR}; {_SPARK_HAS_IT}",
    "datastream.connectors.kinesis*": f"{_JAR}; {_SPARK_HAS_IT}",
    "datastream.connectors.pulsar*": f"{_JAR}; {_SPARK_HAS_IT}",
    "datastream.connectors.rabbitmq*": f"{_JAR}; write a `SourceFunction` or a `Sink` in Python",
    "datastream.connectors.kafka.FlinkKafkaConsumer*": f"{_JAR}, older than `KafkaSource`, which is there",
    "datastream.connectors.kafka.FlinkKafkaProducer*": f"{_JAR}, older than `KafkaSink`, which is there",
    "datastream.connectors.kafka.Semantic*": f"{_JAVA}: a setting of `FlinkKafkaProducer`; use `DeliveryGuarantee`",
    "datastream.connectors.kafka.KafkaSink.get_transformer": f"{_JAVA}: it changes the Java stream",
    "datastream.connectors.base.S*": f"{_JAVA}: it changes the Java stream before a Java sink",
    "datastream.connectors.file_system.FileEnumeratorProvider*": f"{_JAVA}: Spark lists the files",
    "datastream.connectors.file_system.FileSplitAssignerProvider*": f"{_JAVA}: Spark assigns the files",
    "datastream.connectors.file_system.FileSourceBuilder.set_*": f"{_JAVA}: Spark lists and assigns the files",
    "datastream.connectors.file_system.FileCompact*": f"{_JAVA}: files are not compacted after they are finished",
    "datastream.connectors.file_system.FileSink.BaseBuilder.enable_compact": (
        f"{_JAVA}: files are not compacted after they are finished"
    ),
    "datastream.connectors.file_system.FileSink.get_transformer": f"{_JAVA}: it changes the Java stream",
    "datastream.connectors.hybrid_source*": f"{_JAVA}: it switches Java sources; `union` reads two sources",
    "datastream.formats.avro.AvroBulkWriters*": f"{_JAVA}: Avro's Java classes; Spark has Avro files",
    "datastream.formats.avro.AvroInputFormat*": f"{_JAVA}: Avro's Java classes; Spark has Avro files",
    "datastream.formats.avro.AvroSchema*": f"{_JAVA}: Avro's Java classes; Spark has Avro files",
    "datastream.formats.avro.GenericRecordAvroTypeInfo*": f"{_JAVA}: Avro's Java classes; Spark has Avro files",
    "datastream.formats.csv.CsvSchema*": f"{_TABLE}: columns have its types; `StreamFormat.csv_format` takes a schema",
    "datastream.formats.csv.CsvReaderFormat*": f"{_TABLE}: `StreamFormat.csv_format` reads CSV",
    "datastream.formats.csv.CsvBulkWriters*": f"{_TABLE}: `FileSink.for_row_format(path, 'csv')` writes CSV",
    "datastream.formats.json.JsonRowDeserializationSchema.Builder.json_schema": (
        f"{_JAVA}: Flink's reader of JSON Schema; give `type_info`"
    ),
    "datastream.formats.orc*": f"{_TABLE}: rows have its types; Spark writes ORC",
    "datastream.formats.parquet.Avro*": f"{_JAVA}: Avro's Java classes; `BulkFormat.parquet_format` reads Parquet",
    "datastream.formats.parquet*": f"{_TABLE}: rows have its types; `FileSink.for_bulk_format(path, 'parquet')`",
    "datastream.output_tag.OutputTag.get_java_output_tag": _JAVA,
    "datastream.slot_sharing_group.*": _JAVA,
    "datastream.utils*": f"{_JAVA}: helpers of PyFlink's own code",
    "datastream.window.*.register_next_fire_timestamp": "a helper inside the trigger",
}

DIFFERENT: dict[str, str] = {
    "common.execution_config.ExecutionConfig.*able_*kryo": "kept, no effect: there are no Java objects",
    "common.execution_config.ExecutionConfig.*able_force_avro": "kept, no effect: there are no Java objects",
    "common.execution_config.ExecutionConfig.*able_generic_types": "kept, no effect: there are no Java objects",
    "common.execution_config.ExecutionConfig.*able_closure_cleaner": "kept, no effect: functions are Python",
    "common.execution_config.ExecutionConfig.*able_object_reuse": "kept, no effect: chained operators pass objects",
    "common.execution_config.ExecutionConfig.set_latency_tracking_interval": "kept, no effect",
    "common.execution_config.ExecutionConfig.set_task_cancellation_*": "kept, no effect: Spark ends the tasks",
    "common.execution_config.ExecutionConfig.set_auto_watermark_interval": "no effect: watermarks advance by epoch",
    "common.job_execution_result.JobExecutionResult.get_*accumulator*": "there are no accumulators",
    "common.job_client.JobClient.get_accumulators": "always empty: there are no accumulators",
    "common.types.Row": "its values cannot be changed; rows are equal as tuples",
    "common.types.Row.*kind": "the kind stays with the object, and is lost where a row is stored or sent",
    "common.watermark_strategy.WatermarkStrategy.with_watermark_alignment": "no effect: sources are read by epoch",
    "datastream.data_stream.DataStream.set_buffer_timeout": "no effect: records travel with their epoch",
    "datastream.data_stream.DataStream*.slot_sharing_group": "no effect: Spark places the tasks",
    "datastream.data_stream.DataStream.shuffle": "even, not random, so that a replay gives the same",
    "datastream.slot_sharing_group.SlotSharingGroup": "no effect: Spark places the tasks",
    "datastream.stream_execution_environment.StreamExecutionEnvironment.set_buffer_timeout": "no effect",
    "datastream.stream_execution_environment.StreamExecutionEnvironment.enable_changelog_state_backend": (
        "no effect: checkpoints are incremental already"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.add_jars": "sets `spark.jars`",
    "datastream.stream_execution_environment.StreamExecutionEnvironment.add_classpaths": "sets `spark.jars`",
    "datastream.stream_execution_environment.StreamExecutionEnvironment.set_python_requirements": (
        "no effect: install the packages where Spark's executors run Python"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.set_python_executable": (
        "no effect: functions run in the Python of the program or, on a cluster, in that of PYSPARK_PYTHON"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.add_python_archive": (
        "no effect: set `spark.archives`"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.register_cached_file": (
        "no effect: read the file in `open()`"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.create_input": "refused: use `from_source`",
    "datastream.state_backend.EmbeddedRocksDBStateBackend.set_options": "no effect: it names a Java class",
    "datastream.connectors.file_system.BucketAssigner.date_time_bucket_assigner": "refused: one sink per folder",
    "datastream.connectors.file_system.*.with_bucket_check_interval": "no effect: parts end at checkpoints",
}
