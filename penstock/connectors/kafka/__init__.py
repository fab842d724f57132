"""Kafka as a source and as a sink, through librdkafka (`penstock[kafka]`)."""
