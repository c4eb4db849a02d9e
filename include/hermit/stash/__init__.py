"""The stash: a time-varying key-value store of `(key, value, time, diff)` per collection, on PostgreSQL.

What holds, whatever fails:

1. Comparing the fence and writing are one transaction. A handle whose epoch or nonce is not the stored
   one neither reads nor writes.
2. The epoch strictly increases with every open, and two opens never get the same.
3. A write happens once or not at all, and the caller is told which. Where that cannot be found out
   because the store stays away, the error says just that.
4. `version` counts the transactions that changed contents, and nothing else: not opens, not consolidation.
5. Replacing the contents takes the time of a few small writes, however many rows there are, and touches
   neither the epoch, nor this store's own tombstone, nor another component's collections.
6. Merging old updates changes no sum, and its cost follows what changed since the last time.

Components: a stash may hold collections of several components (the catalog is one). Each has its own row
in the fence, its own names and its own table of contents, so that none can fence or touch another.
"""

from __future__ import annotations

from hermit.stash import errors
from hermit.stash.client import StashClient
from hermit.stash.fence import Fence, Token
from hermit.stash.handle import Stash
from hermit.stash.retry import RetryPolicy
from hermit.stash.transaction import StashTransaction

__all__ = ["Fence", "RetryPolicy", "Stash", "StashClient", "StashTransaction", "Token", "errors"]
