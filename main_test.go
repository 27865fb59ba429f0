package ration_test

import (
	"log"
	"log/slog"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// A goroutine left behind fails the tests.
func TestMain(m *testing.M) {
	if n := runtime.NumGoroutine(); n > 1 {
		log.Fatalf("%d goroutines before any test: to import a package starts none", n)
	}
	slog.SetDefault(defaultLogger)
	goleak.VerifyTestMain(m)
}
