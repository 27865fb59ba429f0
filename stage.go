package ration

import (
	"context"
	"time"
)

// stage decides requests, or has the next one do it. The stages of a limiter are put together when it is made: one that is off is not
// there.
type stage interface {
	take(ctx context.Context, timeout time.Duration, a asked) (Decision, error)
}
