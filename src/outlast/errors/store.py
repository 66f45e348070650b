"""Errors of the store and the home: whether they can be opened and used, and what may be kept in them."""

from __future__ import annotations

from outlast.errors import Conflict, Invalid, NotFound, Refused, Unavailable, fact


class BlobNotFound(NotFound):
    """Raised by a server when it has no content of this digest."""

    digest: str
    says = "no content {digest!r}"
    advice = "send it: PUT /v1/handoff/blobs/DIGEST"


class HomeNotFound(NotFound):
    """Raised by reading commands when there is no home to read."""

    path: str
    says = "no .outlast folder here or above ({path})"
    advice = "start a run first, or name the home with OUTLAST_HOME"


class GcRunning(Conflict):
    """Raised when another gc, or a backup, is at work on the same tenant."""

    path: str
    says = "another gc or a backup is at work in {path}"
    advice = "wait until it has ended, then run the same command again"


class HomeNotEmpty(Conflict):
    """Raised when a home is to be restored where something is already. Nothing was changed."""

    path: str
    says = "{path} is there already and not empty"
    advice = "name a place where nothing is: --home DIR; what is there is never replaced"


class BlobsElsewhere(Conflict):
    """Raised when a home is opened with a bucket that is not the one it keeps its content in. Nothing was changed."""

    home: str
    there: str
    given: str
    says = "{home} keeps its content in {there}, and not in {given}"
    advice = "leave --blobs and OUTLAST_BLOBS out, for a home remembers it; or begin another home there"


class BlobsTaken(Conflict):
    """Raised when a place in a bucket is another home's: what one of them does not need, the other may."""

    place: str
    says = "{place} is the place of another home"
    advice = "name another prefix: --blobs s3://BUCKET/PREFIX"


class NothingLost(Conflict):
    """Raised when a tenant is to begin anew whose database is there and sound."""

    path: str
    says = "nothing is lost in {path}: its database is there"
    advice = "go on with it; `outlast doctor` looks at all of it"


class OperationConflict(Conflict):
    """Raised when an operation_id is used again with other content."""

    operation_id: str
    kind: str
    says = "operation {operation_id!r} was already used for another {kind}"
    advice = "use a new operation_id for a new request"


class AmbiguousPrefix(Conflict):
    """Raised when an id prefix names more than one record."""

    prefix: str
    matches: str
    says = "{prefix!r} could be any of {matches}"
    advice = "give more characters"


class IntegrityBroken(Refused):
    """Raised when a record does not match its digest or its place in the chain."""

    record: str
    why: str
    says = "{record} is not what was stored: {why}"
    advice = "check the store with `outlast verify` and restore it from a copy"


class StoreForked(Refused):
    """Raised when a store that was open before a fork is used in the child."""

    path: str
    says = "{path} was open before this process was forked"
    advice = "start workers by `spawn`, or open Outlast only after the fork"


class SyncInLoop(Refused):
    """Raised when the blocking surface is used for an async flow inside a running event loop."""

    what: str
    says = "{what} would block the running event loop"
    advice = "use AsyncOutlast and await it"


class EmbeddedOnly(Refused):
    """Raised by a client of a server for what only the process that has the home can do."""

    what: str
    remedy: str
    says = "{what} does not work over HTTP"
    advice = "{remedy}"


class HomeNotOurs(Refused):
    """Raised for a home that nobody named and that is not this user's: nothing of it was read."""

    path: str
    why: str
    says = "the home {path} is not used: {why}"
    advice = "if you know it, name it: --home {path!q}, or OUTLAST_HOME; else remove it, or work elsewhere"


class ValueRefused(Invalid):
    """Raised when a value cannot be stored so that it comes back equal."""

    path: str
    why: str
    remedy: str
    says = "{path} cannot be stored: {why}"
    advice = "{remedy}"


class TokenizerInvalid(Invalid):
    """Raised when what is to count tokens cannot be loaded, cannot be called, fails or gives no number."""

    path: str
    why: str
    remedy: str
    says = "{path} cannot count tokens: {why}"
    advice = "{remedy}"


class ArchiveInvalid(Invalid):
    """Raised by import when a file is no whole export of a run or a handoff; nothing was written."""

    path: str
    member: str
    why: str
    remedy: str = fact(default="export the run again, or copy the file again")
    says = "{path} cannot be imported: {member}: {why}"
    advice = "{remedy}"


class NameInvalid(Invalid):
    """Raised when a tenant, scope, task, branch or resource name cannot be used."""

    kind: str
    name: str
    why: str
    says = "{kind} {name!r} cannot be used: {why}"

    def __init__(self, kind: str, name: str, why: str) -> None:
        super().__init__(kind=kind, name=name[:100], why=why)


class SettingsInvalid(Invalid):
    """Raised when a client's settings file cannot be changed without losing what is in it: nothing was written."""

    path: str
    why: str
    says = "{path} is not changed: {why}"
    advice = "mend the file, or add the lines of `outlast hook install --print` yourself"


class TrustInvalid(Invalid):
    """Raised when the user's own config says whom to trust in a way that cannot be read: nobody is trusted by it."""

    path: str
    why: str
    says = "{path} cannot be used: {why}"
    advice = "write it so: `trust: [ann, ben@https://example.org]`"


class SecretFound(Invalid):
    """Raised when a value looks like a secret: it is not stored."""

    path: str
    kind: str
    says = "{path} holds what looks like {kind}"
    advice = "take it out; a handoff or record can be stored with redact=True (--redact) to have it masked"


class SecretPatternInvalid(Invalid):
    """Raised when a rule of one's own for secrets cannot be used: nothing is opened with it."""

    path: str
    why: str
    remedy: str
    says = "{path}: {why}"
    advice = "{remedy}"


class HomeSettingsInvalid(Invalid):
    """Raised when the settings of a home cannot be read or name what is none: nothing is opened with them."""

    path: str
    why: str
    remedy: str
    says = "{path}: {why}"
    advice = "{remedy}"


class StoreBusy(Unavailable):
    """Raised when other processes kept the store locked for longer than we wait."""

    path: str
    seconds: float
    says = "{path} stayed locked for {seconds} s"
    advice = "look for a process that holds it open in a transaction; nothing was lost"


class DiskFull(Unavailable):
    """Raised when the disk has no room; what was acknowledged before is safe."""

    path: str
    says = "no room left on the disk of {path}"
    advice = "free some space and run the same command again; everything acknowledged is kept"


class StoreReadOnly(Unavailable):
    """Raised when the store cannot be written."""

    path: str
    why: str
    says = "{path} cannot be written: {why}"
    advice = "check its owner, its permissions and the mount"


class HomeReadOnly(Unavailable):
    """Raised by whatever writes, on a home that can only be looked at."""

    path: str
    why: str
    says = "{path} can be looked at, not written: {why}"
    advice = "check its owner, its permissions and the mount; or work on a copy: `outlast backup`, `outlast restore`"


class StoreLost(Unavailable):
    """Raised when a database is gone or empty where the home shows that there was one. Nothing is made in its place."""

    path: str
    how: str
    evidence: str
    says = "the database {path} {how}, and it is not a new one: {evidence}"
    advice = (
        "bring it back, or `outlast restore BACKUP` into another folder; or begin anew: "
        "`outlast restore --anew --why WHY` keeps what is left aside"
    )


class StoreFailed(Unavailable):
    """Raised when the disk or the database reported an error; the run stops where it is."""

    path: str
    why: str
    says = "the store {path} failed: {why}"
    advice = "run `outlast verify`, then the same command again"


class StoreNewer(Unavailable):
    """Raised when a newer version of Outlast wrote the store."""

    path: str
    found: int
    known: int
    says = "{path} has schema {found}; this version knows {known}"
    advice = "upgrade outlast: pip install -U outlast"


class StoreForeign(Unavailable):
    """Raised when the file is no Outlast store."""

    path: str
    why: str
    says = "{path} is not an Outlast store: {why}"
    advice = "name another home, or restore the file from a copy"


class NetworkFilesystem(Unavailable):
    """Raised when the home lies on a network file system, whose locks cannot be trusted."""

    path: str
    filesystem: str
    says = "{path} is on {filesystem}, whose locks cannot be trusted"
    advice = "put the home on a local disk (OUTLAST_HOME)"


class ExtraMissing(Unavailable):
    """Raised when a part is used whose optional packages are not installed."""

    what: str
    extra: str
    says = "{what} needs the extra {extra!r}"
    advice = "pip install 'outlast[{extra}]'"


class NoThread(Unavailable):
    """Raised when the system gives no thread for something. Nothing of it was done; a run was given back."""

    what: str
    why: str
    says = "{what} cannot begin: {why}"
    advice = "end something else, or raise the limit of processes (`ulimit -u`, or the container's); then try again"


class BlobsUnreachable(Unavailable):
    """Raised when a bucket does not answer, or not as it should, after it was asked again for its time."""

    place: str
    why: str
    says = "{place} does not answer as it should: {why}"
    advice = "what is recorded stays as it is: do the same again later; `outlast doctor` tries the bucket"


class BlobsRefused(Unavailable):
    """Raised when a bucket refuses: it is not there, or the credentials do not suffice."""

    place: str
    why: str
    says = "{place} refuses: {why}"
    advice = (
        "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL, and that the bucket is there"
        " and lets them list, get, put and delete; `outlast doctor` tries it"
    )
