// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/load/apiserver"
)

// A disturbance is a fault that can be drawn.
type disturbance struct {
	name    string
	restart bool // podfit is started again
	begin   func(s *soaking, dice *rand.Rand) (end func() error, err error)
}

// deal returns the fault of each day, in an order that depends on the dice: all of them, and then all again, but none with the text skip in its name. There is none on the first two days and the last
// one, and podfit is started again in the first half only, so that a growth of the last process can be seen.
func deal(dice *rand.Rand, days int, skip string) []*disturbance {
	out := make([]*disturbance, days)
	var deck []*disturbance
	for day := 2; day < days-1; day++ {
		if len(deck) == 0 {
			for _, i := range dice.Perm(len(disturbances)) {
				if skip == "" || !strings.Contains(disturbances[i].name, skip) {
					deck = append(deck, &disturbances[i])
				}
			}
		}
		late := day >= days/2
		i := slices.IndexFunc(deck, func(d *disturbance) bool { return !late || !d.restart })
		if i < 0 {
			deck = nil
			day--
			continue
		}
		out[day] = deck[i]
		deck = slices.Delete(deck, i, i+1)
	}
	return out
}

var disturbances = []disturbance{
	refusing("all requests 429", func(apiserver.Request) error { return statusError(http.StatusTooManyRequests) }),
	refusing("all requests 503", func(apiserver.Request) error { return statusError(http.StatusServiceUnavailable) }),
	refusing("every second request 500", alternately(func() error { return statusError(http.StatusInternalServerError) })),
	refusing("every second request takes 2 s", alternately(func() error { time.Sleep(2 * time.Second); return nil })),
	refusing("metrics API away", func(r apiserver.Request) error {
		if strings.Contains(r.Resource, "metrics.k8s.io") {
			return statusError(http.StatusServiceUnavailable)
		}
		return nil
	}),
	refusing("writes conflict", func(r apiserver.Request) error {
		if r.Writes() && (r.Verb == "patch" || r.Verb == "update") {
			return statusError(http.StatusConflict)
		}
		return nil
	}),
	repeating("watches are cut", time.Second, func(s *soaking) { s.server.CutWatches() }),
	repeating("watches are Gone", 2*time.Second, func(s *soaking) { s.server.ExpireWatches() }),
	measuring("metrics: stale", func(began, _ time.Time, _ *apiserver.Object) (time.Time, bool) {
		return began.Add(-5 * time.Minute), true
	}),
	measuring("metrics: half of the pods", func(_, at time.Time, pod *apiserver.Object) (time.Time, bool) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(pod.Name)) // never fails
		return at, h.Sum32()%2 == 0
	}),
	measuring("metrics: time goes backwards", func(began, at time.Time, _ *apiserver.Object) (time.Time, bool) {
		return at.Add(-2 * time.Since(began)), true
	}),
	{name: "metrics: 10^6 times too high", begin: func(s *soaking, _ *rand.Rand) (func() error, error) {
		s.factor.Store(1_000_000)
		return func() error { s.factor.Store(1); return nil }, nil
	}},
	{name: "SIGKILL", restart: true, begin: func(s *soaking, _ *rand.Rand) (func() error, error) {
		s.kill()
		return s.start, nil
	}},
	{name: "stored objects corrupted, SIGKILL", restart: true, begin: func(s *soaking, dice *rand.Rand) (func() error, error) {
		s.kill()
		for _, resource := range []string{"autoscaling.k8s.io/verticalpodautoscalercheckpoints", "podfit.dev/usagehistories", "podfit.dev/updatestates"} {
			s.corrupt(resource, dice)
		}
		return s.start, nil
	}},
	without("patch", "verticalpodautoscalers.autoscaling.k8s.io/status"),
	without("", "verticalpodautoscalercheckpoints.autoscaling.k8s.io"),
	without("", "usagehistories.podfit.dev"),
	without("", "updatestates.podfit.dev"),
	without("create", "pods/eviction"),
	without("patch", "pods/resize"),
	without("", "pods"),
	without("", "replicasets.apps"),
	without("", "events"),
}

// statusError returns the error of an API server with a status code.
func statusError(code int) error {
	out := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonUnknown, Message: "a fault of the test: " + http.StatusText(code),
	}}
	switch code {
	case http.StatusTooManyRequests:
		out.ErrStatus.Reason = metav1.StatusReasonTooManyRequests
		out.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	case http.StatusConflict:
		out.ErrStatus.Reason = metav1.StatusReasonConflict
	case http.StatusForbidden:
		out.ErrStatus.Reason = metav1.StatusReasonForbidden
	case http.StatusServiceUnavailable:
		out.ErrStatus.Reason = metav1.StatusReasonServiceUnavailable
	}
	return out
}

// refusing returns a fault of requests.
func refusing(name string, refuse func(apiserver.Request) error) disturbance {
	return disturbance{name: name, begin: func(s *soaking, _ *rand.Rand) (func() error, error) {
		s.refuse.Store(&refuse)
		return func() error { s.refuse.Store(nil); return nil }, nil
	}}
}

// alternately returns a function that does something for every second request.
func alternately(do func() error) func(apiserver.Request) error {
	var n atomic.Int64
	return func(apiserver.Request) error {
		if n.Add(1)%2 == 0 {
			return nil
		}
		return do()
	}
}

// without returns a fault in which a right is missing: for a verb, or for all of them.
func without(verb, resource string) disturbance {
	name := strings.TrimSpace("right removed: " + verb + " " + resource)
	name = strings.ReplaceAll(name, ":  ", ": ")
	return refusing(name, func(r apiserver.Request) error {
		if r.Resource == resource && (verb == "" || r.Verb == verb) {
			return statusError(http.StatusForbidden)
		}
		return nil
	})
}

// repeating returns a fault that is made again and again.
func repeating(name string, every time.Duration, do func(*soaking)) disturbance {
	return disturbance{name: name, begin: func(s *soaking, _ *rand.Rand) (func() error, error) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				do(s)
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		}()
		return func() error {
			close(stop)
			<-stopped
			return nil
		}, nil
	}}
}

// measuring returns a fault of the times of measurements.
func measuring(name string, change func(began, at time.Time, pod *apiserver.Object) (time.Time, bool)) disturbance {
	return disturbance{name: name, begin: func(s *soaking, _ *rand.Rand) (func() error, error) {
		began := time.Now()
		measured := func(pod *apiserver.Object, at time.Time) (time.Time, bool) { return change(began, at, pod) }
		s.measured.Store(&measured)
		return func() error { s.measured.Store(nil); return nil }, nil
	}}
}

// corrupted is how many objects of a resource are corrupted.
const corrupted = 20

// corrupt changes the statuses of some objects of a resource: one field of each is cut off, has another type or makes no sense.
func (s *soaking) corrupt(resource string, dice *rand.Rand) {
	objects := s.server.List(resource, "")
	for _, i := range dice.Perm(len(objects))[:min(corrupted, len(objects))] {
		s.server.ModifyCustom(resource, objects[i].Namespace, objects[i].Name, func(fields map[string]json.RawMessage) {
			var status map[string]json.RawMessage
			if json.Unmarshal(fields["status"], &status) != nil || len(status) == 0 {
				return
			}
			names := slices.Sorted(maps.Keys(status))
			name := names[dice.IntN(len(names))]
			whole := string(status[name])
			garbage := []string{`"garbage"`, `-1`, `{}`, `[]`, `null`, `{"data":"AAAA"}`, `[{"data":"!"}]`, strings.ReplaceAll(whole, "1", "9"), strings.ReplaceAll(whole, "A", "z")}
			status[name] = json.RawMessage(garbage[dice.IntN(len(garbage))])
			if b, err := json.Marshal(status); err == nil {
				fields["status"] = b
			}
		})
	}
}
