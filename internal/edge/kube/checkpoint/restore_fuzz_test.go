// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// The largest amounts that a recommendation may have, whatever is stored. They are more than a thousand times what a machine has.
const (
	mostMillicores = 1e10
	mostBytes      = 1e16
)

// restoredStore is a usage store that contains the history from stored objects, and the profile that uses it.
type restoredStore struct {
	profile recommend.Profile
	a       *cluster.Autoscaler
	store   *usage.Store
	now     time.Time
}

// restoreFrom returns a store with the history from a checkpoint and a UsageHistory. It ignores what cannot be decoded.
func restoreFrom(p recommend.Profile, checkpoint, history []byte) *restoredStore {
	r := &restoredStore{profile: p, now: time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)}
	r.a = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: deployment("web")}
	r.store = usage.NewStore(usage.DefaultConfig())
	r.store.Tick(r.now)
	r.store.Configure(r.a.Target, nil)
	if p.Extend != nil {
		r.store.Extend(r.a.Target, p.Extend)
	}
	var histories []usage.History
	var h historyObject
	if json.Unmarshal(history, &h) == nil {
		histories, _ = h.histories()
	}
	var o checkpointObject
	if json.Unmarshal(checkpoint, &o) == nil {
		if c, err := o.checkpoint(); err == nil {
			if i := slices.IndexFunc(histories, func(h usage.History) bool { return h.Container == "app" }); i >= 0 {
				c.History = histories[i]
			}
			_ = r.store.Restore(r.a.Target, "app", c)
		}
	}
	for _, h := range histories {
		_ = r.store.Recall(r.a.Target, h)
	}
	return r
}

// measure adds samples of a quarter of a core and 256 MiB for five hours.
func (r *restoredStore) measure() {
	pod := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "web-1"}, UID: "uid", Top: r.a.Target, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app"}},
	}
	r.store.Track(pod)
	for range 30 {
		r.now = r.now.Add(10 * time.Minute)
		r.store.Tick(r.now)
		r.store.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: r.now, CPU: 0.25, Memory: 256 << 20, Has: cluster.Both})
	}
}

func (r *restoredStore) check(t *testing.T, when string) {
	t.Helper()
	for _, adv := range recommend.Workload(r.profile.Params, r.profile.Estimator, r.store, r.a, r.a.Target, r.now) {
		for _, res := range cluster.All {
			lower := adv.Lower.Amount(res)
			target := adv.Target.Amount(res)
			upper := adv.Upper.Amount(res)
			most := int64(mostMillicores)
			if res == cluster.Memory {
				most = mostBytes
			}
			if lower < 0 || lower > target || target > upper || target > most {
				t.Fatalf("%s, %s: %s of %s is %d, %d, %d", r.profile.Name, when, res, adv.Container, lower, target, upper)
			}
		}
	}
}

// objectsOf returns the objects that are stored after ten days with a profile: the checkpoint and the UsageHistory.
func objectsOf(f testing.TB, p recommend.Profile) (checkpoint, history []byte) {
	r := restoreFrom(p, nil, nil)
	r.now = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for range 10 {
		r.measure()
		r.now = r.now.Add(23 * time.Hour)
	}
	c, ok := r.store.Checkpoint(r.a.Target, "app", r.now)
	if !ok {
		f.Fatal("there is no checkpoint")
	}
	write := func(meta, status any) []byte {
		raw, err := json.Marshal(map[string]any{"metadata": meta, "status": status, "spec": map[string]any{
			"vpaObjectName": "web", "containerName": "app", "target": map[string]string{"group": "apps", "kind": "Deployment", "name": "web"},
		}})
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	annotation := map[string]string{annotationWindow: base64.StdEncoding.EncodeToString(c.Carry().Extra)}
	return write(map[string]any{"annotations": annotation}, checkpointStatus(&c)),
		write(map[string]any{}, historyStatus(r.store.Histories(r.a.Target, r.now)))
}

// FuzzRestore restores history from arbitrary objects. podfit must not panic, the bounds of the recommendations must be ordered and
// not too large, and the next checkpoint must be restorable.
func FuzzRestore(f *testing.F) {
	builtins := recommend.Builtins()
	for i, p := range builtins {
		checkpoint, history := objectsOf(f, p)
		f.Add(uint8(i), checkpoint, history)
		f.Add(uint8(i+1), checkpoint, history)
		f.Add(uint8(i), []byte(`{}`), history)
	}
	for _, status := range hostileStatuses {
		f.Add(uint8(1), fmt.Appendf(nil, `{"metadata":{"annotations":{"podfit.dev/window":"AQAAAAAAAAA="}},"status":%s}`, status), []byte(`{}`))
	}
	for _, entry := range hostileEntries {
		for i := range builtins {
			f.Add(uint8(i), []byte(`{}`), fmt.Appendf(nil, `{"status":{"histories":[%s]}}`, entry))
		}
	}
	f.Fuzz(func(t *testing.T, profile uint8, checkpoint, history []byte) {
		p := builtins[int(profile)%len(builtins)]
		r := restoreFrom(p, checkpoint, history)
		r.check(t, "before the first sample")
		r.measure()
		r.check(t, "with samples")
		c, ok := r.store.Checkpoint(r.a.Target, "app", r.now)
		if !ok {
			t.Fatal("there is no checkpoint after new samples")
		}
		next := usage.NewStore(usage.DefaultConfig())
		next.Tick(r.now)
		if p.Extend != nil {
			next.Extend(r.a.Target, p.Extend)
		}
		if err := next.Restore(r.a.Target, "app", c.Carry()); err != nil {
			t.Fatalf("%s: the next checkpoint cannot be restored: %v", p.Name, err)
		}
	})
}

// Statuses of checkpoints with extreme values. The API server admits them.
var hostileStatuses = []string{
	`{"version":"v3","lastUpdateTime":"2026-03-20T11:00:00Z","totalSamplesCount":9223372036854775807,"firstSampleStart":"2026-03-01T00:00:00Z","lastSampleStart":"2026-03-20T00:00:00Z"}`,
	`{"version":"v3","totalSamplesCount":-1}`,
	`{"version":"v3","totalSamplesCount":1e3}`,
	`{"version":"v3","totalSamplesCount":9223372036854775808}`,
	`{"version":"v3","lastUpdateTime":"9999-12-31T23:59:59Z"}`,
	`{"version":"v3","lastUpdateTime":"0001-01-01T00:00:00Z","firstSampleStart":"2026-03-20T00:00:00Z","lastSampleStart":"2026-03-01T00:00:00Z"}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":1e308,"bucketWeights":{"0":10000},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":-1e308,"bucketWeights":{"0":10000},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":1e309}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":"NaN"}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":5e-324,"bucketWeights":{"175":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"175":4294967295,"0":4294967295},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"175":4294967296},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"-1":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"176":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"9223372036854775807":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"0":0},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":0,"bucketWeights":{"3":10000},"referenceTimestamp":null}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"3":10000},"referenceTimestamp":"9999-01-01T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"3":10000},"referenceTimestamp":"0001-01-01T00:00:01Z"}}`,
	`{"version":"v3","cpuHistogram":null,"memoryHistogram":null,"lastUpdateTime":null}`,
	`{"version":3}`, `[]`, `null`, `"v3"`, `{"version":"v2"}`, `{"version":""}`,
}

// Entries of UsageHistories with extreme values.
var hostileEntries = []string{
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":""}`,
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":"AQ=="}`,
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}`,
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":"/////////////////////////////////////////////////////////////w=="}`,
	`{"container":"app","format":"adaptive/1","updated":"9999-12-31T23:59:59Z","data":"AQAA"}`,
	`{"container":"app","format":"adaptive/1","updated":null,"data":"AQAA"}`,
	`{"container":"app","format":"adaptive/1","updated":"2026-03-20T11:00:00Z","lastSample":"9999-12-31T23:59:59Z","data":"AQAA"}`,
	`{"container":"","format":"adaptive/1","updated":"2026-03-20T11:00:00Z","data":"AQAA"}`,
	`{"container":"app","data":7}`, `7`, `null`, `{"container":"app","data":"!"}`,
}
