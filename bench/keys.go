package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// keySource makes the keys of one run of the program. Their names are like no other's, so that the run can clean up behind
// itself in a Redis that holds more.
type keySource struct {
	run  string
	made int
}

func newKeySource() *keySource {
	return &keySource{run: "bench-" + strings.ToLower(rand.Text()[:10])}
}

// next makes a key.
func (s *keySource) next() string {
	s.made++
	return fmt.Sprintf("%s:%07d", s.run, s.made)
}

// take makes n keys.
func (s *keySource) take(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = s.next()
	}
	return keys
}

// deleteAll deletes whatever Redis stores for keys of this source.
func (s *keySource) deleteAll(ctx context.Context, rdb *redis.Client) error {
	const page = 1000
	for cursor := uint64(0); ; {
		stored, next, err := rdb.Scan(ctx, cursor, "*"+s.run+":*", page).Result()
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		if len(stored) > 0 {
			if err := rdb.Unlink(ctx, stored...).Err(); err != nil {
				return fmt.Errorf("clean up: %w", err)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
