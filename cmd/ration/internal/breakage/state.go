// Package breakage breaks a Redis on purpose, and mends it: one of its own as a process, anybody else's only as far as the clients
// of this process can see.
package breakage

// State is what is done to a Redis.
type State string

// The states.
const (
	Healthy State = "healthy"
	Stopped State = "stopped" // connections stay, and nothing is answered
	Killed  State = "killed"  // connections break, and new ones are refused
	Slow    State = "slow"    // each answer comes later, by the latency
)
