"""An online-trained model: parameters are learnt in keyed state and served to another stream by broadcast.

Trips teach a linear model per city how long a kilometre takes. Its parameters go to every subtask that answers
questions; a question is answered once the watermark has passed it, with all that was learnt until then.
"""

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

TRIPS = [("oslo", km, 4.0 + 2.0 * km) for km in (1.0, 2.0, 3.0) * 200] + [("rome", 2.0, 9.0), ("rome", 2.0, 9.0)]
QUESTIONS = [("oslo", "q1", 2.5), ("rome", "q2", 2.0), ("bern", "q3", 1.0)]
RATE = 0.1
PARAMETERS = Types.LIST(Types.DOUBLE())
MODELS = MapStateDescriptor("models", Types.STRING(), PARAMETERS)


class Train(KeyedProcessFunction):
    """One step of gradient descent per trip."""

    def open(self, ctx):
        self.parameters = ctx.get_state(ValueStateDescriptor("parameters", PARAMETERS))

    def process_element(self, trip, ctx):
        base, per_km = self.parameters.value() or [0.0, 0.0]
        error = base + per_km * trip.km - trip.minutes
        learnt = [base - RATE * error, per_km - RATE * error * trip.km]
        self.parameters.update(learnt)
        yield trip.city, learnt


class Serve(KeyedBroadcastProcessFunction):
    def open(self, ctx):
        self.waiting = ctx.get_list_state(ListStateDescriptor("waiting", "id string, km double"))

    def process_broadcast_element(self, model, ctx):
        ctx.get_broadcast_state(MODELS).put(model.city, model.parameters)

    def process_element(self, question, ctx):
        self.waiting.add((question.id, question.km))
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        base, per_km = ctx.get_broadcast_state(MODELS).get(ctx.get_current_key()) or [0.0, 0.0]
        for question, km in self.waiting.get():
            yield question, ctx.get_current_key(), round(base + per_km * km, 2)
        self.waiting.clear()


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: 1)
trips = env.from_collection(TRIPS, "city string, km double, minutes double").uid("trips")
models = trips.key_by("city").process(Train(), output_type="city string, parameters array<double>").uid("train")
questions = env.from_collection(QUESTIONS, "city string, id string, km double").uid("questions")
asked = questions.assign_timestamps_and_watermarks(time).uid("time").key_by("city")
served = asked.connect(models.broadcast(MODELS)).process(Serve(), output_type="id string, city string, minutes double")
served.uid("serve").print()
env.execute("online-model")
