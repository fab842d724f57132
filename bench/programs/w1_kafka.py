"""Workload W1 from a topic to a topic, up to the end that the topic has when the job starts."""

import sys
from pathlib import Path

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.datastream.state import ValueStateDescriptor

EVENT = "key string, value double"
TOTAL = "key string, n bigint, total double"


class CountAndSum(KeyedProcessFunction):
    """Running count and sum of a key's values, one row out per row in."""

    def open(self, ctx: RuntimeContext) -> None:
        self.totals = ctx.get_state(ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.DOUBLE()])))

    def process_element(self, event, ctx):
        n, total = self.totals.value() or (0, 0.0)
        n += 1
        total += event.value
        self.totals.update((n, total))
        yield event.key, n, total


def main() -> None:
    brokers, source_topic, sink_topic, guarantee, folder = sys.argv[1:]
    work = Path(folder)
    settings = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "5s",
        "execution.checkpointing.dir": str(work / "checkpoints"),
        "penstock.registry.dir": str(work / "registry"),
        "penstock.epoch.max-rows": "200000",
        "spark.master": "local[2,4]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(brokers)
        .set_topics(source_topic)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(EVENT).build())
        .build()
    )
    value = JsonRowSerializationSchema.builder().with_type_info(TOTAL).build()
    schema = KafkaRecordSerializationSchema.builder().set_topic(sink_topic).set_value_serialization_schema(value)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(brokers)
        .set_record_serializer(schema.build())
        .set_delivery_guarantee(DeliveryGuarantee[guarantee])
        .build()
    )
    events = env.from_source(source, WatermarkStrategy.no_watermarks(), "events").uid("events")
    totals = events.key_by("key").process(CountAndSum(), output_type=TOTAL).uid("count-and-sum")
    totals.sink_to(sink).uid("totals")
    env.execute("w1-kafka")
    (work / "ended").touch()


if __name__ == "__main__":
    main()
