"""Kafka: the names of `pyflink.datastream.connectors.kafka`. Needs `penstock[kafka]`, and no jar."""

from penstock.connectors.kafka.kafka_sink import KafkaSink, KafkaSinkBuilder
from penstock.connectors.kafka.record_schema import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)

__all__ = [
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaTopicSelector",
]
