"""`SlotSharingGroup`: the resources of operators that share a slot. No effect here: Spark places the tasks."""

from dataclasses import dataclass, field

from penstock.errors import UsageError
from penstock.model.memory_size import MemorySize


@dataclass(frozen=True)
class SlotSharingGroup:
    """A group of operators and the resources that they ask for.

    >>> SlotSharingGroup.builder("io").set_cpu_cores(0.5).set_task_heap_memory_mb(64).build().get_cpu_cores()
    0.5
    """

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """The group's name."""
        return self.name

    def get_managed_memory(self) -> MemorySize | None:
        """The managed memory, or None."""
        return self.managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """The memory of the Java heap, or None."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """The memory outside the Java heap, or None."""
        return self.task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """The number of cores, or None."""
        return self.cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Other resources by name."""
        return dict(self.external_resources)

    @staticmethod
    def builder(name: str) -> "SlotSharingGroup.Builder":
        """Starts a group."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """PyFlink's builder of a SlotSharingGroup."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._heap: MemorySize | None = None
            self._off_heap: MemorySize | None = None
            self._managed: MemorySize | None = None
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> "SlotSharingGroup.Builder":
            """Set the number of cores."""
            if cpu_cores <= 0:
                raise UsageError(f"slot sharing group {self._name!r} asks for {cpu_cores} cores; give a number above 0")
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> "SlotSharingGroup.Builder":
            """Set the memory of the Java heap."""
            self._heap = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> "SlotSharingGroup.Builder":
            """Set the memory of the Java heap in mebibytes."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> "SlotSharingGroup.Builder":
            """Set the memory outside the Java heap."""
            self._off_heap = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> "SlotSharingGroup.Builder":
            """Set the memory outside the Java heap in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> "SlotSharingGroup.Builder":
            """Set the managed memory."""
            self._managed = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> "SlotSharingGroup.Builder":
            """Set the managed memory in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> "SlotSharingGroup.Builder":
            """Set another resource."""
            self._external[name] = value
            return self

        def build(self) -> "SlotSharingGroup":
            """The group. As in Flink, cores and heap memory belong together, and come before any other resource."""
            others = self._off_heap is not None or self._managed is not None or self._external
            if self._heap == MemorySize(0):
                raise UsageError(f"slot sharing group {self._name!r} asks for no task heap memory; give a size above 0")
            if self._cpu_cores is not None and self._heap is not None:
                off_heap, managed = self._off_heap or MemorySize(0), self._managed or MemorySize(0)
                return SlotSharingGroup(self._name, self._cpu_cores, self._heap, off_heap, managed, self._external)
            if self._cpu_cores is not None or self._heap is not None or others:
                raise UsageError(
                    f"slot sharing group {self._name!r} needs both set_cpu_cores() and set_task_heap_memory(), or no "
                    f"resource at all"
                )
            return SlotSharingGroup(self._name)
