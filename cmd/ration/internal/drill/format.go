package drill

import (
	"fmt"
	"strconv"
	"time"
)

// Millis is a short time as people say it.
func Millis(d time.Duration) string { return InMillis(d) + "ms" }

// InMillis is a short time in milliseconds.
func InMillis(d time.Duration) string {
	millis := float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
	if millis >= 10 {
		return strconv.FormatFloat(millis, 'f', 0, 64)
	}
	return fmt.Sprintf("%.2g", millis)
}

// Seconds is a longer time as people say it.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s" }
