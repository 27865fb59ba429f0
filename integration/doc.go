// Package integration tests ration on real servers, in containers of its own: on Redis and Valkey whose clock the test sets,
// on a Redis Cluster, under fleets of processes, and with servers that stop, hang, and come back without the scripts.
//
// It is all tests. They need a Docker daemon on this machine, and without one they fail: whoever calls them decides whether
// to. The servers on a test's clock need Linux and a C compiler too; without these they are skipped, and fail where CI=true.
//
// Images are named by their tags alone, and the environment is testcontainers' own: TESTCONTAINERS_RYUK_DISABLED=true where
// the image that clears up after a crash is not to be had, TESTCONTAINERS_HOST_OVERRIDE where the host is not at localhost.
package integration
