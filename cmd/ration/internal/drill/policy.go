package drill

import (
	"fmt"

	"github.com/go-ration/ration"
)

// Policy is what decides without Redis.
type Policy string

// The policies.
const (
	Local  Policy = "local"
	Open   Policy = "open"
	Closed Policy = "closed"
)

// ParsePolicy reads the name of a policy.
func ParsePolicy(name string) (Policy, error) {
	switch p := Policy(name); p {
	case Local, Open, Closed:
		return p, nil
	}
	return "", fmt.Errorf("%q: want %s, %s or %s", name, Local, Open, Closed)
}

func (p Policy) failure() ration.FailurePolicy {
	switch p {
	case Open:
		return ration.FailOpen()
	case Closed:
		return ration.FailClosed()
	case Local:
	}
	return ration.FailLocal()
}
