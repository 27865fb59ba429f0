package ration

import (
	"fmt"
	"strconv"
	"time"
)

// longestWindow is the longest window that is counted: whole milliseconds, up to the greatest number that the scripts
// compute with, in microseconds.
const longestWindow = exactBound * time.Microsecond / time.Millisecond * time.Millisecond

// checkWindow says what is wrong with the numbers that all window plans have.
func checkWindow(plan string, limit, greatest int64, window time.Duration) error {
	refuse := func(field, format string, args ...any) error {
		return &PlanError{Plan: plan, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case limit < 1:
		return refuse("Limit", "is %d: must be at least 1", limit)
	case limit > greatest:
		return refuse("Limit", "is %d: must be at most %d", limit, greatest)
	case window < time.Millisecond:
		return refuse("Window", "is %v: must be at least 1ms", window)
	case window > longestWindow:
		return refuse("Window", "is %v: must be at most %v", window, longestWindow)
	case window%time.Millisecond != 0:
		return refuse("Window", "is %v: must be whole milliseconds", window)
	default:
		return nil
	}
}

// formatWindow writes a window plan as ParsePlan reads it: "fixed-window 60/2h".
func formatWindow(plan string, limit int64, window time.Duration) string {
	return plan + " " + strconv.FormatInt(limit, 10) + "/" + formatSpan(window)
}
