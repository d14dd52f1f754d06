// Keeps children that a program forks from using what their parent made: threads and connections don't survive a fork.
#ifndef SHOAL_WORKER_LIBRARY_FORK_GUARD_H_
#define SHOAL_WORKER_LIBRARY_FORK_GUARD_H_

namespace shoal {

// Before the process makes its first handle: children forked from now on are marked. A child forked before that may use
// the library by itself. Any thread.
void MarkFutureChildren();

// True in a marked child. Such a process must not touch handles, not even to free them.
bool IsMarkedChild();

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_FORK_GUARD_H_
