// What go-redis' documentation shows, against a server: go run . PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		must(client.FlushAll(ctx).Err())
		for _, example := range []func(*redis.Client){
			values, pipelines, optimisticLocking, subscriptions, sortedSets, streams, scripts,
		} {
			example(client)
		}
		must(client.Close())
	}
	fmt.Println("go-redis " + version() + ": values, pipelines, transactions, pub/sub, sorted sets, streams, scripts; RESP2 and RESP3")
}

func version() string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if strings.HasPrefix(module.Path, "github.com/redis/go-redis") {
			return module.Version
		}
	}
	return "?"
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(what string, got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		panic(fmt.Sprintf("%s: %v instead of %v", what, got, want))
	}
}

func values(client *redis.Client) {
	must(client.Set(ctx, "key", "value", 0).Err())
	expect("GET", client.Get(ctx, "key").Val(), "value")
	if _, err := client.Get(ctx, "missing").Result(); !errors.Is(err, redis.Nil) {
		panic(err)
	}
	set, err := client.SetNX(ctx, "lease", "mine", 10*time.Second).Result()
	must(err)
	expect("SETNX", set, true)
	expect("TTL", client.TTL(ctx, "lease").Val() > 8*time.Second, true)
	type account struct {
		Name string `redis:"name"`
		Age  int    `redis:"age"`
	}
	must(client.HSet(ctx, "account", account{"Ann", 29}).Err())
	var read account
	must(client.HGetAll(ctx, "account").Scan(&read))
	expect("HGETALL", read, account{"Ann", 29})
	must(client.RPush(ctx, "list", "a", "b", "c").Err())
	expect("BLPOP", client.BLPop(ctx, time.Second, "none", "list").Val(), []string{"list", "a"})
	must(client.SAdd(ctx, "set", 1, 2, 3).Err())
	expect("SISMEMBER", client.SMIsMember(ctx, "set", 3, 4).Val(), []bool{true, false})
	keys := 0
	for iterator := client.Scan(ctx, 0, "*", 2).Iterator(); iterator.Next(ctx); {
		keys++
	}
	expect("SCAN", keys, 5)
	expect("WRONGTYPE", redis.HasErrorPrefix(client.Incr(ctx, "list").Err(), "WRONGTYPE"), true)
}

func pipelines(client *redis.Client) {
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 1000 {
			pipe.IncrBy(ctx, "sum", int64(i))
		}
		return nil
	})
	must(err)
	expect("the last of a pipeline", commands[999].(*redis.IntCmd).Val(), 499500)
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "counter")
		pipe.Expire(ctx, "counter", time.Hour)
		return nil
	})
	must(err)
	expect("EXPIRE in a transaction", client.TTL(ctx, "counter").Val() > 0, true)
}

func optimisticLocking(client *redis.Client) {
	increment := func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, "optimistic").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "optimistic", n+1, 0)
			return nil
		})
		return err
	}
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for {
				err := client.Watch(ctx, increment, "optimistic")
				if err == nil {
					return
				}
				if !errors.Is(err, redis.TxFailedErr) {
					panic(err)
				}
			}
		})
	}
	group.Wait()
	expect("increments by WATCH", client.Get(ctx, "optimistic").Val(), 10)
}

func subscriptions(client *redis.Client) {
	subscription := client.Subscribe(ctx, "channel")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	must(err)
	must(subscription.PSubscribe(ctx, "pat*"))
	_, err = subscription.Receive(ctx)
	must(err)
	must(client.Publish(ctx, "channel", "hello").Err())
	must(client.Publish(ctx, "pattern", "there").Err())
	messages := subscription.Channel()
	expect("a message", (<-messages).Payload, "hello")
	message := <-messages
	expect("a message by pattern", message.Pattern+" "+message.Channel+" "+message.Payload, "pat* pattern there")
}

func sortedSets(client *redis.Client) {
	must(client.ZAdd(ctx, "scores", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"}, redis.Z{Score: 3, Member: "c"}).Err())
	expect("ZRANGE", client.ZRangeWithScores(ctx, "scores", 0, 1).Val(), "[{1 a} {2.5 b}]")
	by := redis.ZRangeArgs{Key: "scores", Start: 2, Stop: "+inf", ByScore: true}
	expect("ZRANGE BYSCORE", client.ZRangeArgs(ctx, by).Val(), "[b c]")
	expect("ZRANK", client.ZRankWithScore(ctx, "scores", "b").Val(), "{1 2.5}")
	expect("BZPOPMIN", client.BZPopMin(ctx, time.Second, "scores").Val().Member, "a")
	must(client.GeoAdd(ctx, "places", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}).Err())
	near := &redis.GeoSearchQuery{Longitude: 13.4, Latitude: 38, Radius: 50, RadiusUnit: "km"}
	expect("GEOSEARCH", client.GeoSearch(ctx, "places", near).Val(), "[Palermo]")
}

func streams(client *redis.Client) {
	for n := range 3 {
		must(client.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: map[string]any{"n": n}}).Err())
	}
	must(client.XGroupCreate(ctx, "stream", "group", "0").Err())
	read := &redis.XReadGroupArgs{Group: "group", Consumer: "one", Streams: []string{"stream", ">"}, Count: 2, Block: time.Second}
	entries, err := client.XReadGroup(ctx, read).Result()
	must(err)
	expect("XREADGROUP", len(entries[0].Messages), 2)
	expect("XACK", client.XAck(ctx, "stream", "group", entries[0].Messages[0].ID).Val(), 1)
	expect("XPENDING", client.XPending(ctx, "stream", "group").Val().Count, 1)
	claimed, _, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "stream", Group: "group", Consumer: "two", Start: "0"}).Result()
	must(err)
	expect("XAUTOCLAIM", claimed[0].Values["n"], "1")
	expect("XINFO", client.XInfoStream(ctx, "stream").Val().Length, 3)
	expect("XINFO FULL", len(client.XInfoStreamFull(ctx, "stream", 10).Val().Groups), 1)
}

func scripts(client *redis.Client) {
	must(client.ScriptFlush(ctx).Err())
	increment := redis.NewScript(`
		local value = tonumber(redis.call("GET", KEYS[1]) or 0) + ARGV[1]
		redis.call("SET", KEYS[1], value)
		return value
	`)
	for range 2 {
		must(increment.Run(ctx, client, []string{"scripted"}, 21).Err())
	}
	expect("a script", client.Get(ctx, "scripted").Val(), 42)
	found, err := increment.Exists(ctx, client).Result()
	must(err)
	expect("SCRIPT EXISTS", found, []bool{true})
	const library = "#!lua name=numbers\nredis.register_function{function_name='double', callback=function(_, args) return args[1] * 2 end, flags={'no-writes'}}"
	must(client.FunctionLoadReplace(ctx, library).Err())
	expect("FCALL_RO", client.FCallRo(ctx, "double", nil, 21).Val(), 42)
	must(client.FunctionDelete(ctx, "numbers").Err())
}
