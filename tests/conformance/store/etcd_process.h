// A real etcd of one member, for as long as the object lives.
#ifndef SHOAL_TESTS_CONFORMANCE_STORE_ETCD_PROCESS_H_
#define SHOAL_TESTS_CONFORMANCE_STORE_ETCD_PROCESS_H_

#include <sys/types.h>

#include <string>

namespace shoal::scheduler {

class EtcdProcess {
 public:
  // Starts it with its data in `folder` and waits until it answers; ends the test program if it doesn't.
  explicit EtcdProcess(const std::string& folder);
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  const std::string& address() const { return address_; }
  // SIGSTOP and SIGCONT.
  void Stop() const;
  void GoOn() const;
  // Its space is used up (alarm NOSPACE): it takes no writes until there is room again.
  void SetFull(bool full) const;

 private:
  std::string address_;
  pid_t process_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_STORE_ETCD_PROCESS_H_
