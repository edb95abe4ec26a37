"""The fixtures of tests/client, for kernels that are treated badly."""
import importlib.util
import pathlib

_path = pathlib.Path(__file__).resolve().parents[1] / "client" / "conftest.py"
_spec = importlib.util.spec_from_file_location("cadre_client_conftest", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
kernel, shared_kernel, cadre, artefacts = (_module.kernel, _module.shared_kernel, _module.cadre,
                                           _module.artefacts)
