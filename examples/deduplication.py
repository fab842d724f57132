"""De-duplication: events that a producer has sent twice pass only once, for as long as their ids are remembered."""

from penstock.common import Time, Types
from penstock.datastream import FilterFunction, StreamExecutionEnvironment
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor

EVENTS = [
    ("e1", "ada logs in"),
    ("e2", "bob logs in"),
    ("e1", "ada logs in"),
    ("e3", "ada pays"),
    ("e2", "bob logs in"),
    ("e3", "ada pays"),
]


class FirstOnly(FilterFunction):
    """Lets the first event of a key through. An id is forgotten a day after it was seen, so state does not grow."""

    def open(self, ctx):
        seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        seen.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.seen = ctx.get_state(seen)

    def filter(self, event):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
events = env.from_collection(EVENTS, "id string, text string").uid("events")
events.key_by("id").filter(FirstOnly()).uid("first-only").print()
env.execute("deduplication")
