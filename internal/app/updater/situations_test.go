// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// A hostileCluster is a fakeCluster in which something goes wrong.
type hostileCluster struct {
	requests sync.Mutex // held during each request, because the updater sends several at a time
	*fakeCluster
	step    func(minute int)                                  // what happens in the cluster before each pass
	jump    func(minute int) time.Duration                    // how far the clock of the updater is ahead
	evict   func(p *cluster.Pod) (answer error, handled bool) // nil: the pod is evicted
	resize  func(p *cluster.Pod, with []policy.Fitted) (answer error, handled bool)
	limits  cluster.LimitRange
	quotas  *cluster.Quotas
	hpas    []*cluster.HorizontalAutoscaler
	wanted  int32                // replicas of each controller; 0: as many as there are pods
	sets    cluster.Container    // what another component sets on new pods after the webhook; zero: nothing
	dryRuns replacementDryRunner // instead of its own; nil: its own
	missing map[int]bool         // features whose rights the updater lacks

	minute  int
	actions map[string]int // successful actions by kind
	tried   map[string]int // attempts by kind
}

func newHostileCluster(mode cluster.Mode) *hostileCluster {
	y := &hostileCluster{fakeCluster: newFakeCluster(mode), actions: map[string]int{}, tried: map[string]int{}}
	for _, p := range y.pods {
		p.Created, p.Started, p.ReadySince = p.Created.Add(-24*time.Hour), p.Started.Add(-24*time.Hour), p.ReadySince.Add(-24*time.Hour)
		p.Containers[0].Limits = cluster.Amounts(1000, 1<<30)
	}
	y.autoscalers[0].Created = time.Now().Add(-24 * time.Hour)
	return y
}

func (y *hostileCluster) Limits(string) cluster.LimitRange { return y.limits }
func (y *hostileCluster) Quotas(string) *cluster.Quotas    { return y.quotas }
func (y *hostileCluster) Scale(w cluster.Workload) cluster.Scale {
	if y.wanted > 0 {
		return cluster.Scale{Known: true, Replicas: y.wanted}
	}
	return y.fakeCluster.Scale(w)
}

func (y *hostileCluster) Snapshot() *cluster.Snapshot {
	s := y.fakeCluster.Snapshot()
	for i, a := range s.Autoscalers {
		s.Autoscalers[i] = a.WithHorizontal(y.hpas)
	}
	return s
}

// DryRun returns the replacement of a pod as this cluster would create it.
func (y *hostileCluster) DryRun(_ context.Context, p *cluster.Pod) (*cluster.Pod, error) {
	q := &cluster.Pod{Key: p.Key, Containers: []cluster.Container{{Name: "app", Requests: small, Limits: cluster.Amounts(1000, 1<<30)}}}
	if y.admits {
		y.size(q, policy.Fit(y.autoscalers[0], policy.Limits{Range: y.limits}, q))
	}
	if y.sets.Name != "" {
		q.Sized, q.Containers[0] = true, y.sets
	}
	return q, nil
}

func (y *hostileCluster) count(kind string, err error) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.tried[kind]++
	if err == nil {
		y.actions[kind]++
	}
	return err
}

func (y *hostileCluster) Evict(ctx context.Context, p *cluster.Pod) error {
	y.requests.Lock()
	defer y.requests.Unlock()
	if y.evict != nil {
		if err, handled := y.evict(p); handled {
			return y.count("evict", err)
		}
	}
	before := y.serial
	err := y.fakeCluster.Evict(ctx, p)
	if err == nil && strings.HasPrefix(p.UID, "replacement-") {
		_ = y.count("evict again", nil)
	}
	if y.admits && err == nil {
		y.change(func(q *cluster.Pod) {
			if q.UID == fmt.Sprint("replacement-", before+1) {
				q.Resize, q.Containers[0] = nil, cluster.Container{Name: "app", Requests: small, Limits: cluster.Amounts(1000, 1<<30)}
				y.size(q, policy.Fit(y.autoscalers[0], policy.Limits{Range: y.limits}, q))
			}
		})
	}
	return y.count("evict", err)
}

// small is the size in the template of the pods.
var small = cluster.Amounts(100, 50<<20)

func (y *hostileCluster) size(p *cluster.Pod, with []policy.Fitted) {
	for _, f := range with {
		c := p.Container(f.Container)
		c.Requests, c.Limits = f.Requests.Or(c.Requests), f.Limits.Or(c.Limits)
	}
}

// resizeLater makes the spec of a pod ask for a size that the kubelet has not applied.
func (y *hostileCluster) resizeLater(p *cluster.Pod, with []policy.Fitted, state cluster.Resize) {
	y.replace(p, func(q *cluster.Pod) {
		c := &q.Containers[0]
		c.Applied = &cluster.Applied{Requests: c.Requests, Limits: c.Limits}
		y.size(q, with)
		state.Since = time.Now()
		q.Resize = &state
	})
}

func (y *hostileCluster) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	y.requests.Lock()
	defer y.requests.Unlock()
	if y.resize != nil {
		if err, handled := y.resize(p, with); handled {
			return y.count("resize", err)
		}
	}
	err := y.fakeCluster.Resize(ctx, p, with)
	if err == nil {
		y.change(func(q *cluster.Pod) {
			if q.UID == p.UID {
				y.size(q, with)
			}
		})
	}
	return y.count("resize", err)
}

// change changes a copy of each pod.
func (y *hostileCluster) change(f func(p *cluster.Pod)) {
	for _, p := range slices.Clone(y.pods) {
		y.replace(p, f)
	}
}

// during runs a pass each minute, and returns the reasons of the pods in the last four passes.
func (y *hostileCluster) during(t *testing.T, d time.Duration) []string {
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
	u.actuators.replacements, u.rights.missing = y, y.missing
	if y.dryRuns != nil {
		u.actuators.replacements = y.dryRuns
	}
	var reasons []string
	for y.minute = range int(d / time.Minute) {
		if y.step != nil {
			y.step(y.minute)
		}
		now := time.Now().Round(0) // wall clock only
		if y.jump != nil {
			now = now.Add(y.jump(y.minute))
		}
		decisions := u.update(t.Context(), now)
		if y.minute >= int(d/time.Minute)-4 {
			for _, x := range decisions {
				reasons = append(reasons, fmt.Sprint(x.Reason.Code, ": ", x.Reason))
			}
		}
		time.Sleep(time.Minute)
	}
	return reasons
}

// culprit returns the sentence about the cause in the reason NotSizedAtAdmission.
func culprit(called int) string {
	_, sentence, _ := strings.Cut(decision.Reason{Code: decision.NotSizedAtAdmission, Want: called}.String(), ". ")
	return strings.TrimSuffix(sentence, ".")
}

func TestUpdater_hostileSituations_noPodIsEvictedAgainAndAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	type bounds struct{ evictions, resizes, attempts int }
	const mebi = 1 << 20
	inPlace := process.Gates{process.InPlaceGate: true}
	for name, c := range map[string]struct {
		mode  cluster.Mode
		world func(*hostileCluster)
		short bounds // at most, in 30 minutes
		day   bounds // at most, in 24 hours
		cause decision.ReasonCode
		text  string // part of the reason
	}{
		"webhook is down": {
			mode: cluster.Recreate, world: func(y *hostileCluster) { y.admits = false },
			short: bounds{1, 0, 1}, day: bounds{1, 0, 1}, cause: decision.NotSizedAtAdmission, text: culprit(0),
		},
		"webhook is down, and dry runs are refused": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.admits, y.dryRuns = false, dryRunsOf{fmt.Errorf("dry run: %w", kube.ErrForbidden), new(int)}
			},
			short: bounds{1, 0, 1}, day: bounds{8, 0, 8}, cause: decision.BackingOff,
		},
		"other webhook resets the requests of new pods": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.admits, y.sets = false, cluster.Container{Name: "app", Requests: cluster.Amounts(123, 77*mebi)}
				y.step = func(int) {
					y.change(func(p *cluster.Pod) { p.Containers[0].Requests = cluster.Amounts(123, 77*mebi) })
				}
			},
			short: bounds{1, 0, 1}, day: bounds{1, 0, 1}, cause: decision.NotSizedAtAdmission, text: culprit(1),
		},
		"other client undoes resizes": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) {
				y.step = func(int) {
					y.change(func(p *cluster.Pod) {
						p.Containers[0].Requests, p.Containers[0].Limits = small, cluster.Amounts(1000, 1<<30)
					})
				}
			},
			short: bounds{0, 12, 12}, day: bounds{0, 40, 40}, cause: decision.BackingOff,
		},
		"LimitRange caps the size": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.limits.Container.Max = cluster.Amounts(1000, 1<<30)
				y.limits.Pod.Max = cluster.Amounts(200, 100*mebi)
			},
			short: bounds{3, 0, 3}, day: bounds{3, 0, 3}, cause: decision.Fits,
		},
		"LimitRange forces a larger size": {
			mode: cluster.Recreate, world: func(y *hostileCluster) { y.limits.Container.Min = cluster.Amounts(100, 900*mebi) },
			short: bounds{3, 0, 3}, day: bounds{3, 0, 3}, cause: decision.Fits,
		},
		"LimitRange that podfit does not see sets another size": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				forced := cluster.Amounts(200, 64*mebi)
				y.admits, y.sets = false, cluster.Container{Name: "app", Requests: forced, Limits: forced}
				y.step = func(int) {
					y.change(func(p *cluster.Pod) { p.Containers[0].Requests, p.Containers[0].Limits = forced, forced })
				}
			},
			short: bounds{1, 0, 1}, day: bounds{1, 0, 1}, cause: decision.NotSizedAtAdmission, text: "gets the memory request 64Mi and not",
		},
		"LimitRanges contradict each other": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) {
				y.limits.Container.Min, y.limits.Container.Max = cluster.Amounts(900, 900*mebi), cluster.Amounts(500, 500*mebi)
			},
			cause: decision.ReplacementRefused, text: "LimitRange",
		},
		"PodDisruptionBudget allows none": {
			mode: cluster.Recreate, world: func(y *hostileCluster) { y.evictErr = fmt.Errorf("evict: %w", kube.ErrBudget) },
			short: bounds{0, 0, 15}, day: bounds{0, 0, 70}, cause: decision.DisruptionBudget, text: "PodDisruptionBudget",
		},
		"quota is full": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Requests: cluster.Amounts(0, 0)}}}}
			},
			day: bounds{}, cause: decision.OverQuota, text: "compute",
		},
		"quota is full, but not known": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) { y.resizeErr = fmt.Errorf("resize: %w", kube.ErrQuota) },
			short: bounds{0, 0, 20}, day: bounds{0, 0, 70}, cause: decision.ResizeOverQuota,
		},
		"evicted pods are not replaced": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.wanted = 3
				y.evict = func(p *cluster.Pod) (error, bool) {
					y.pods = slices.DeleteFunc(slices.Clone(y.pods), func(q *cluster.Pod) bool { return q.UID == p.UID })
					return nil, true
				}
			},
			short: bounds{1, 0, 1}, day: bounds{1, 0, 1}, cause: decision.ReplacementMissing,
		},
		"pod is replaced under its name during each eviction": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.evict = func(p *cluster.Pod) (error, bool) {
					y.replace(p, func(q *cluster.Pod) { y.serial++; q.UID = fmt.Sprint("new-", y.serial); q.Created = time.Now() })
					return fmt.Errorf("evict: %w", kube.ErrConflict), true
				}
			},
			short: bounds{0, 0, 30}, day: bounds{0, 0, 24 * 60}, cause: decision.AlreadyGone,
		},
		"pod is replaced under its name during each resize": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) {
				y.resize = func(p *cluster.Pod, _ []policy.Fitted) (error, bool) {
					y.replace(p, func(q *cluster.Pod) { y.serial++; q.UID = fmt.Sprint("new-", y.serial); q.Created = time.Now() })
					return fmt.Errorf("resize: %w", kube.ErrNotFound), true
				}
			},
			short: bounds{0, 0, 30}, day: bounds{0, 0, 24 * 60}, cause: decision.AlreadyGone,
		},
		"clock jumps while the webhook is down": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.admits = false
				y.jump = func(minute int) time.Duration {
					return map[int]time.Duration{0: 0, 1: 48 * time.Hour, 2: -48 * time.Hour}[min(minute/10%3, 2)]
				}
			},
			short: bounds{1, 0, 1}, day: bounds{1, 0, 1}, cause: decision.NotSizedAtAdmission, text: "not called",
		},
		"resize has an unknown condition": {
			mode: cluster.InPlace, world: func(y *hostileCluster) {
				y.config.Gates = inPlace
				y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
					y.resizeLater(p, with, cluster.Resize{State: cluster.ResizeUnknown, Message: "quantum"})
					return nil, true
				}
			},
			short: bounds{0, 3, 3}, day: bounds{0, 3, 3}, cause: decision.ResizeUnclear, text: "quantum",
		},
		"resize has an unknown condition, and replacements get the old size": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) {
				y.admits = false
				y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
					y.resizeLater(p, with, cluster.Resize{State: cluster.ResizeUnknown, Message: "quantum"})
					return nil, true
				}
				y.evict = func(p *cluster.Pod) (error, bool) {
					y.replace(p, func(q *cluster.Pod) {
						y.serial++
						q.UID, q.Created, q.Started, q.Resize = fmt.Sprint("new-", y.serial), time.Now(), time.Now(), nil
						q.Containers[0] = cluster.Container{Name: "app", Requests: small, Limits: cluster.Amounts(1000, 1<<30)}
					})
					return nil, true
				}
			},
			short: bounds{1, 4, 5}, day: bounds{1, 12, 13}, cause: decision.NotSizedAtAdmission,
		},
		"HPA has a broken spec": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.hpas = []*cluster.HorizontalAutoscaler{{
					Key: cluster.Key{Namespace: "shop", Name: "broken"}, UID: "h", Target: y.autoscalers[0].Target,
					Utilization: []cluster.UtilizationTarget{
						{Index: -1, Resource: cluster.CPU, Percent: -5}, {Index: 99, Resource: cluster.Memory, Percent: 0}, {Resource: 77, Container: "none", Percent: 1 << 30},
					},
					Points: []cluster.ScalePoint{{Resource: cluster.CPU, Base: -1, Percent: 0, Set: -7}},
				}}
			},
			day: bounds{}, cause: decision.LeftToHPA, text: "broken",
		},
		"API server is busy for ten minutes": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.evict = func(*cluster.Pod) (error, bool) { return fmt.Errorf("evict: %w", kube.ErrBusy), y.minute < 10 }
			},
			short: bounds{3, 0, 15}, day: bounds{3, 0, 15}, cause: decision.Fits,
		},
		"VPA changes its mode each minute": {
			mode: cluster.Recreate, world: func(y *hostileCluster) {
				y.admits = false
				y.step = func(minute int) {
					a := *y.autoscalers[0]
					a.Mode = []cluster.Mode{cluster.Recreate, cluster.Off, cluster.InPlaceOrRecreate, cluster.Initial}[minute%4]
					y.autoscalers = []*cluster.Autoscaler{&a}
				}
			},
			short: bounds{1, 3, 4}, day: bounds{1, 3, 4}, cause: decision.ModeOff,
		},
		"recommendation oscillates": {
			mode: cluster.Recreate, world: func(y *hostileCluster) { y.step = y.oscillate },
			short: bounds{6, 0, 6}, day: bounds{24, 0, 24}, cause: decision.ChangesTooOften, text: "the recommendation keeps changing",
		},
		"recommendation oscillates, resizes": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) { y.step = y.oscillate },
			short: bounds{0, 31, 31}, day: bounds{0, 24*60 + 1, 24*60 + 1},
		},
		"node vanishes while room is made": {
			mode: cluster.InPlaceOrRecreate, world: func(y *hostileCluster) {
				full := fullNode()
				y.pods, y.autoscalers, y.nodes = full.pods, full.autoscalers, full.nodes
				y.config.MakeRoom = "move"
				y.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
					if len(y.nodes) == 2 && p.Node == "n" { // with the first step of the plan
						y.nodes = y.nodes[1:]
						y.change(func(p *cluster.Pod) {
							if p.Node == "n" {
								p.Ready, p.Phase = false, cluster.UnknownPhase
							}
						})
					}
					if p.Node == "n" {
						y.resizeLater(p, with, cluster.Resize{}) // and no kubelet carries it out
						return nil, true
					}
					return nil, false
				}
			},
			short: bounds{0, 3, 3}, day: bounds{0, 3, 3}, cause: decision.NotReady,
		},
	} {
		for d, most := range map[time.Duration]bounds{30 * time.Minute: c.short, 24 * time.Hour: c.day} {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := newHostileCluster(c.mode)
					c.world(y)
					reasons := y.during(t, d)
					tried := y.tried["evict"] + y.tried["resize"]
					if y.actions["evict"] > most.evictions || y.actions["resize"] > most.resizes || tried > most.attempts {
						t.Errorf("actions %v and %d attempts, want at most %+v", y.actions, tried, most)
					}
					if n := y.actions["evict again"]; n > 0 && d == 30*time.Minute && !strings.HasPrefix(name, "recommendation oscillates") {
						t.Errorf("%d replacements of evicted pods were evicted in %v, want none", n, d)
					}
					if !slices.ContainsFunc(reasons, func(r string) bool { return strings.HasPrefix(r, c.cause.String()+":") && strings.Contains(r, c.text) }) {
						t.Errorf("reasons %q, want %s with %q", reasons, c.cause, c.text)
					}
					t.Logf("actions %v, %d attempts; reasons %q", y.actions, tried, reasons)
				})
			})
		}
	}
}

// oscillate changes the recommendation by 30 percent up and down each minute, with narrow bounds.
func (y *hostileCluster) oscillate(minute int) {
	a := *y.autoscalers[0]
	factor := int64(7 + 6*(minute%2))
	target := cluster.Amounts(100*factor, (50<<20)*factor)
	a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
		Lower: cluster.Amounts(target.CPU*95/100, target.Memory*95/100), Target: target, Upper: cluster.Amounts(target.CPU*105/100, target.Memory*105/100),
	}}}
	y.autoscalers = []*cluster.Autoscaler{&a}
}
