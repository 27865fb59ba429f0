package ration_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine left behind fails the tests.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
