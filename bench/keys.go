package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// keySource makes the keys of one run of the program. Their names are like no other's, so that the run can clean up behind
// itself in a Redis that holds more.
type keySource struct {
	run       string
	made      int
	shortMade int
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

// takeShort makes n keys of 12 bytes each, fewer than ten million in all.
func (s *keySource) takeShort(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		s.shortMade++
		keys[i] = s.short(s.shortMade)
	}
	return keys
}

// short is the name of the i-th short key. There is too little in it of this run to find the keys by.
func (s *keySource) short(i int) string { return fmt.Sprintf("%s%07d", s.run[len(s.run)-5:], i) }

// deleteAll deletes whatever Redis stores for keys of this source, the short ones under their very names.
func (s *keySource) deleteAll(ctx context.Context, rdb *redis.Client) error {
	short := make([]string, s.shortMade)
	for i := range short {
		short[i] = s.short(i + 1)
	}
	if err := unlink(ctx, rdb, short); err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		stored, next, err := rdb.Scan(ctx, cursor, "*"+s.run+":*", page).Result()
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		if err := unlink(ctx, rdb, stored); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// page is how many keys one command is about, and how many commands a pipeline holds that need not be one.
const page = 200

// unlink deletes keys by the names they have in Redis.
func unlink(ctx context.Context, rdb *redis.Client, stored []string) error {
	for names := range slices.Chunk(stored, page) {
		if err := rdb.Unlink(ctx, names...).Err(); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}
