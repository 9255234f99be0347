// Command cluster writes and reads back with go-redis' ClusterClient: cluster PORT SECONDS TAGS.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	keys    = 2000
	writers = 4
)

type entry struct {
	acknowledged, tried int
	at                  time.Time
}

// record is what is known of each key. A key belongs to one writer, so that only the report is locked.
type record struct {
	client  *redis.ClusterClient
	entries [keys]entry
	lock    sync.Mutex
	report  report
}

type report struct {
	Version string         `json:"version"`
	Writes  int            `json:"writes"`
	Reads   int            `json:"reads"`
	Errors  map[string]int `json:"errors"`
	Lost    [][]any        `json:"lost"`
	Wrong   [][]any        `json:"wrong"`
}

// Every second key is of one of the slots that move, which these words are of.
var tags = strings.Split(os.Args[3], ",")

func key(number int) string {
	tag := strconv.Itoa(number)
	if number%2 == 1 {
		tag = tags[number/2%len(tags)]
	}
	return fmt.Sprintf("{%s}:cluster-client:%d", tag, number)
}

func (r *record) fail(err error, pause time.Duration) {
	text := fmt.Sprintf("%T: %v", err, err)
	r.lock.Lock()
	r.report.Errors[text[:min(len(text), 120)]]++
	r.lock.Unlock()
	time.Sleep(pause)
}

func (r *record) read(ctx context.Context, number int) error {
	value, err := r.client.Get(ctx, key(number)).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	e := &r.entries[number]
	r.lock.Lock()
	defer r.lock.Unlock()
	r.report.Reads++
	if e.acknowledged <= value && value <= e.tried {
		return nil
	}
	found := []any{key(number), value, e.acknowledged, float64(e.at.UnixMilli()) / 1000}
	if value < e.acknowledged {
		r.report.Lost = append(r.report.Lost, found)
	} else {
		r.report.Wrong = append(r.report.Wrong, found)
	}
	// From here on the older value is the right one.
	e.acknowledged = min(value, e.tried)
	return nil
}

func (r *record) write(ctx context.Context, number int) error {
	e := &r.entries[number]
	e.tried++
	if err := r.client.Set(ctx, key(number), e.tried, 0).Err(); err != nil {
		return err
	}
	e.acknowledged, e.at = e.tried, time.Now()
	r.lock.Lock()
	r.report.Writes++
	r.lock.Unlock()
	return r.read(ctx, number)
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[2])
	ctx := context.Background()
	r := &record{client: redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:" + os.Args[1]},
		// These notices are of one vendor's service; other servers reply with an error, which is not to be counted here.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	r.report = report{Version: redis.Version(), Errors: map[string]int{}, Lost: [][]any{}, Wrong: [][]any{}}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var running sync.WaitGroup
	for first := range writers {
		running.Go(func() {
			for turn := first; time.Now().Before(end); turn += writers {
				if err := r.write(ctx, turn*7%keys); err != nil {
					r.fail(err, 100*time.Millisecond)
				}
			}
		})
	}
	running.Wait()
	for number := range keys {
		for range 100 {
			err := r.read(ctx, number)
			if err == nil {
				break
			}
			r.fail(err, 200*time.Millisecond)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r.report); err != nil {
		panic(err)
	}
}
