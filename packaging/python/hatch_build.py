"""What build.sh passes to hatchling: the version, the tag of the platform, and the programs."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Metadata(MetadataHookInterface):
    def update(self, metadata):
        metadata["version"] = os.environ["WARMLINE_VERSION"]


class Build(BuildHookInterface):
    def initialize(self, version, build_data):
        # Programs for one platform, and for every Python.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['WARMLINE_PLATFORM']}"
        build_data["artifacts"] += ["warmline/bin/*", "warmline/supervise.sh"]
