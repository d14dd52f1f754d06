// Starts same_node_peer and sees that it ends, with all that it started.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_PEER_PROCESS_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_PEER_PROCESS_H_

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace shoal {

class PeerProcess {
 public:
  // `user`: empty: ours.
  PeerProcess(const std::string& address, const char* mode, const std::string& user = "") {
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ != 0) return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // Our sockets: a copy of one in the child would keep its connection alive.
    close_range(3, ~0u, 0);
    execl(SHOAL_SAME_NODE_PEER, SHOAL_SAME_NODE_PEER, address.c_str(), mode, user.empty() ? nullptr : user.c_str(),
          nullptr);
    _exit(1);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() {
    // What it forked is in its group too.
    kill(-process_, SIGKILL);
    Wait();
  }

  void Send(int signal) const { EXPECT_EQ(kill(process_, signal), 0); }
  // Kills it alone.
  void Kill() {
    Send(SIGKILL);
    Wait();
  }
  bool IsStopped() const {
    int status = 0;
    return waitpid(process_, &status, WUNTRACED | WNOHANG) == process_ && WIFSTOPPED(status);
  }

 private:
  void Wait() {
    if (!waited_) waitpid(process_, nullptr, 0);
    waited_ = true;
  }

  pid_t process_ = 0;
  bool waited_ = false;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_PEER_PROCESS_H_
