import platform
import subprocess
import sys

import pytest

CODE = """
import resource, sys
from tpn.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
import torch

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(20):
    torch.ones(2**24)
before = faults()
for _ in range(10):
    torch.ones(2**24)  # 64 MB, freed at once
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc's allocator")
def test_memory_that_is_kept_is_not_mapped_again():
    def faults(setting):
        done = subprocess.run([sys.executable, "-c", CODE, setting], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("keep") < faults("default") / 10
