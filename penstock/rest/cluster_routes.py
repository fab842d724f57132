"""The endpoints of what Flink calls the cluster: driver and TaskManagers, settings, metrics and logs."""

from penstock.model.metric_readings import Figure
from penstock.rest import builtin_metrics, cluster_views, metric_views
from penstock.rest.endpoint import Answer, Call, Endpoint
from penstock.rest.prometheus_text import CONTENT_TYPE, prometheus_text

TEXT = "text/plain; charset=utf-8"


def show_overview(call: Call) -> Answer:
    return Answer(200, cluster_views.overview(call.control.job.record()))


def show_config(call: Call) -> Answer:
    return Answer(200, cluster_views.dashboard_config())


def show_prometheus(call: Call) -> Answer:
    return Answer(200, prometheus_text(call.control), CONTENT_TYPE)


def show_jobs_metrics(call: Call) -> Answer:
    """As of several jobs; there is one, which `jobs` need not name."""
    return Answer(200, metric_views.aggregated_metrics(metric_views.job_metrics(call.control).items(), call.query))


def show_driver_config(call: Call) -> Answer:
    return Answer(200, cluster_views.driver_config(call.control.facts))


def show_driver_metrics(call: Call) -> Answer:
    record = call.control.job.record()
    figures: dict[str, Figure] = {
        "numRegisteredTaskManagers": len(cluster_views.taskmanagers_of(record)),
        "numRunningJobs": int(not record.ended),
        "taskSlotsTotal": len(cluster_views.taskmanagers_of(record)),
        "taskSlotsAvailable": 0,
    }
    return Answer(200, metric_views.names_or_values(figures, call.query))


def list_driver_logs(call: Call) -> Answer:
    return Answer(200, cluster_views.log_files(call.control.job.record()))


def show_driver_log(call: Call) -> Answer:
    return Answer(200, cluster_views.log_text(call.control.job.record(), None, call.path["log"]), TEXT)


def list_taskmanagers(call: Call) -> Answer:
    record = call.control.job.record()
    found = [cluster_views.taskmanager(record, process) for process in cluster_views.taskmanagers_of(record)]
    return Answer(200, {"taskmanagers": found})


def show_taskmanager(call: Call) -> Answer:
    record = call.control.job.record()
    process = cluster_views.find_taskmanager(record, call.path["taskmanagerid"])
    return Answer(200, cluster_views.taskmanager(record, process))


def show_merged_taskmanager_metrics(call: Call) -> Answer:
    record = call.control.job.record()
    figures = [
        figure
        for process in cluster_views.taskmanagers_of(record)
        if metric_views.is_chosen(call.query, "taskmanagers", process.id)
        for figure in builtin_metrics.taskmanager_metrics(record, process).items()
    ]
    return Answer(200, metric_views.aggregated_metrics(figures, call.query))


def show_taskmanager_metrics(call: Call) -> Answer:
    record = call.control.job.record()
    process = cluster_views.find_taskmanager(record, call.path["taskmanagerid"])
    return Answer(200, metric_views.names_or_values(builtin_metrics.taskmanager_metrics(record, process), call.query))


def list_taskmanager_logs(call: Call) -> Answer:
    record = call.control.job.record()
    process = cluster_views.find_taskmanager(record, call.path["taskmanagerid"])
    return Answer(200, cluster_views.log_files(record, process))


def show_taskmanager_log(call: Call) -> Answer:
    record = call.control.job.record()
    process = cluster_views.find_taskmanager(record, call.path["taskmanagerid"])
    return Answer(200, cluster_views.log_text(record, process, call.path["log"]), TEXT)


_TASKMANAGER = "/taskmanagers/{taskmanagerid}"
CLUSTER_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/overview", show_overview, summary="Numbers of jobs and TaskManagers."),
    Endpoint("GET", "/config", show_config, summary="What Flink's web page asks for first."),
    Endpoint("GET", "/metrics", show_prometheus, media_type=CONTENT_TYPE, summary="All metrics, for Prometheus."),
    Endpoint(
        "GET",
        "/jobs/metrics",
        show_jobs_metrics,
        query=("get", "agg", "jobs"),
        summary="Metrics of the job, as of several jobs.",
    ),
    Endpoint("GET", "/jobmanager/config", show_driver_config, summary="The settings that are set."),
    Endpoint("GET", "/jobmanager/metrics", show_driver_metrics, query=("get",), summary="Metrics of the driver."),
    Endpoint("GET", "/jobmanager/logs", list_driver_logs, summary="The driver's logs."),
    Endpoint("GET", "/jobmanager/logs/{log}", show_driver_log, media_type=TEXT, summary="A log of the driver."),
    Endpoint("GET", "/taskmanagers", list_taskmanagers, summary="The TaskManagers."),
    Endpoint(
        "GET",
        "/taskmanagers/metrics",
        show_merged_taskmanager_metrics,
        query=("get", "agg", "taskmanagers"),
        summary="Metrics merged over TaskManagers.",
    ),
    Endpoint("GET", _TASKMANAGER, show_taskmanager, summary="A TaskManager."),
    Endpoint(
        "GET", _TASKMANAGER + "/metrics", show_taskmanager_metrics, query=("get",), summary="Metrics of a TaskManager."
    ),
    Endpoint("GET", _TASKMANAGER + "/logs", list_taskmanager_logs, summary="A TaskManager's logs."),
    Endpoint(
        "GET", _TASKMANAGER + "/logs/{log}", show_taskmanager_log, media_type=TEXT, summary="A log of a TaskManager."
    ),
)
