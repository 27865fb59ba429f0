package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// machine says on what was measured.
func machine() string {
	cores := count(runtime.NumCPU(), "core")
	return fmt.Sprintf("%s, %s, %s/%s, %s", cpu(), cores, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// cpu is the name of the processor, where the system tells it as Linux does.
func cpu() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	if name := infoField(string(info), "model name"); name != "" {
		return name
	}
	return "a CPU of unknown name"
}

// redisVersion is the name and the version of a server.
func redisVersion(ctx context.Context, rdb *redis.Client) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	if refused(err) {
		return "Redis of unknown version", nil
	}
	if err != nil {
		return "", err
	}
	if version := infoField(info, "valkey_version"); version != "" {
		return "Valkey " + version, nil
	}
	return "Redis " + infoField(info, "redis_version"), nil
}

// refused says that a server answered, but not what it was asked: it does not know that, or this user may not ask.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// infoField is the value in the first line "field: value", or "".
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// measured are the modules measured beside ours and below it.
var measured = []string{
	"github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10", "github.com/ulule/limiter/v3",
	"github.com/throttled/throttled/v2", "github.com/redis/rueidis",
}

// versions are the modules measured beside ours and below it, as far as the build tells.
func versions() []string {
	var all []string
	build, _ := debug.ReadBuildInfo()
	if build == nil {
		return nil
	}
	for _, module := range build.Deps {
		if slices.Contains(measured, module.Path) {
			all = append(all, module.Path+" "+module.Version)
		}
	}
	return all
}
