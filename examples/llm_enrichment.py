"""Enrichment by a language model: each message is answered with the conversation so far, many requests at a time."""

import asyncio

from penstock.common import Time, Types
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ListStateDescriptor

TYPE = "user string, text string"
MESSAGES = [("ada", "hello"), ("bob", "where is my order"), ("ada", "my parcel is late"), ("ada", "thank you")]
KEPT = 2


class FakeModel:
    """Stands for a client such as openai.AsyncOpenAI; its first request fails, as a busy service would."""

    requests = 0

    async def complete(self, prompt):
        self.requests += 1
        if self.requests == 1:
            raise ConnectionError("busy")
        await asyncio.sleep(0.05)
        return f"answer to {prompt[-1]!r}, knowing {len(prompt) - 1} earlier"


class Conversation(KeyedProcessFunction):
    """Puts the last messages of a user before each new one."""

    def open(self, ctx):
        self.history = ctx.get_list_state(ListStateDescriptor("history", Types.STRING()))

    def process_element(self, message, ctx):
        prompt = [*self.history.get(), message.text]
        self.history.update(prompt[-KEPT:])
        yield message.user, prompt


class Answer(AsyncFunction):
    def open(self, ctx):
        self.model = FakeModel()

    async def async_invoke(self, asked):
        return [(asked.user, await self.model.complete(asked.prompt))]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
messages = env.from_collection(MESSAGES, TYPE).uid("messages")
prompts = messages.key_by("user").process(Conversation(), "user string, prompt array<string>").uid("conversation")
busy = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: isinstance(error, ConnectionError))
answers = AsyncDataStream.ordered_wait_with_retry(prompts, Answer(), Time.seconds(30), busy, 20, TYPE)
answers.uid("answers").print()
env.execute("llm-enrichment")
