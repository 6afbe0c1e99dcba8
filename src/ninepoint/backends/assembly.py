"""Machine code of the package's own, from text for LLVM."""

from __future__ import annotations


class Assembly:
    """Functions whose names begin with `ninepoint_`; they stay as long as this object."""

    def __init__(self, text: str) -> None:
        # Imported here, not above: `import ninepoint` must not import LLVM.
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where the function begins that is called so."""
        return int(self._engine.get_function_address(f"ninepoint_{name}"))
