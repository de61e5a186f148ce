"""All campaigns."""

from torture.campaign import Campaign
from torture.command_lines import CommandLines
from torture.disks import Disks
from torture.estimator import Estimator
from torture.flips import Flips
from torture.foreign_files import ForeignFiles
from torture.kills import Kills
from torture.labelling_kills import LabellingKills
from torture.studio import StudioKills

CAMPAIGNS: dict[str, type[Campaign]] = {
    campaign.name: campaign
    for campaign in (Flips, ForeignFiles, CommandLines, Estimator, Kills, LabellingKills, StudioKills, Disks)
}
