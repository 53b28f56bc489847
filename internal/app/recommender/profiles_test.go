// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestRecommender_profileName_selectsAlgorithm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		for _, name := range []string{"", "default", "balanced", "cost", "critical"} {
			b.autoscale("vpa-"+name, b.deployment("web-"+name, 2, "app")).Recommender = name
		}
		b.autoscale("vpa-other", b.deployment("other", 2, "app")).Recommender = "other-recommender"
		b.run(3 * time.Hour)
		upstream := b.advice("vpa-", "app").Target
		if got := b.advice("vpa-default", "app").Target; got != upstream {
			t.Errorf("profile default recommends %v, no profile %v", got, upstream)
		}
		for _, name := range []string{"balanced", "cost", "critical"} {
			got := b.advice("vpa-"+name, "app").Target
			if got.CPU < 300 || got.Memory < 200<<20 || got.Memory > 400<<20 || got == upstream {
				t.Errorf("profile %s recommends %v, default %v", name, got, upstream)
			}
		}
		for _, a := range b.autoscalers {
			if a.Name == "vpa-other" && len(a.Advice) > 0 {
				t.Error("a VPA of another recommender got a recommendation")
			}
		}
	})
}

func TestRecommender_killedWithProfile_modelStateIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
		b.run(5 * time.Hour)
		b.use["app"] = cluster.Amounts(700, 500<<20)
		b.run(11 * time.Minute)
		high := b.advice("web", "app").Target
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; got.Memory < high.Memory*9/10 {
			t.Errorf("target %v before the restart, %v after it", high, got)
		}
	})
}

func TestRecommender_recommenderNameIsSet_profileNamesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fs := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
		b.config.Flags(fs)
		if err := fs.Parse([]string{"--recommender-name=default"}); err != nil {
			t.Fatal(err)
		}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
		b.run(10 * time.Minute)
		if a := b.autoscalers[0]; len(a.Advice) > 0 {
			t.Errorf("a VPA with a profile name got %v", a.Advice)
		}
	})
}

const (
	tight = `{"base": "busy-hours", "busyHours": {"from": 0, "to": 24, "percentile": 1, "criticality": 1, "floorMillicores": 1}, "memory": {"margin": -0.5, "floorMiB": 1}}`
	loose = `{"base": "busy-hours", "busyHours": {"from": 0, "to": 24, "percentile": 1, "criticality": 2, "floorMillicores": 1}, "memory": {"margin": 0.7, "floorMiB": 1}}`
	wrong = `{"base": "busy-hours", "busyHours": {"criticality": 99}}`
)

// near reports whether an amount matches the profile tight or loose: a CPU bucket is 12 % wide, and memory increases after a change.
func near(got, want int64) bool { return got >= want && float64(got) < 1.2*float64(want) }

func TestRecommender_sizingProfile_sizesReferencingVPAs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": tight}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "mine"
		b.autoscale("early", b.deployment("early", 2, "app")).Recommender = "later"
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; !near(got.CPU, 300) || !near(got.Memory, 200<<20) {
			t.Errorf("target without margin: %v", got)
		}
		for _, a := range b.autoscalers {
			if a.Name == "early" && (len(a.Advice) > 0 || len(b.written[a.Key]) > 0) {
				t.Errorf("a VPA with an unknown profile got %v", a.Advice)
			}
		}
		b.profiles["later"] = loose
		b.run(time.Hour)
		if got := b.advice("early", "app").Target; !near(got.CPU, 600) || !near(got.Memory, 400<<20) {
			t.Errorf("target with a margin of 100 %%: %v", got)
		}
		if c := b.condition("early", v1alpha1.ConditionSizingProfileUsable); c.Status != watcher.Removed {
			t.Errorf("SizingProfileUsable is %+v", c)
		}
	})
}

func TestRecommender_changedParameters_modelStateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": tight}
		b.use["app"] = cluster.Amounts(700, 500<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "mine"
		b.during(4*time.Hour, func(at time.Duration) {
			switch at {
			case time.Hour:
				b.use["app"] = cluster.Amounts(300, 200<<20)
			case 2 * time.Hour:
				b.profiles["mine"] = loose
			}
		})
		if got := b.advice("web", "app").Target; !near(got.CPU, 1400) || !near(got.Memory, 1000<<20) {
			t.Errorf("target %v, want twice the peak of three hours ago", got)
		}
	})
}

func TestRecommender_changedAlgorithm_holdsRecommendationForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": `{"base": "balanced", "memory": {"floorMiB": 1}}`}
		b.use["app"] = cluster.Amounts(700, 500<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "mine"
		var before, after, later cluster.Resources
		b.during(30*time.Hour, func(at time.Duration) {
			switch at {
			case time.Hour:
				b.use["app"] = cluster.Amounts(300, 200<<20)
			case 2 * time.Hour:
				before = b.advice("web", "app").Target
				b.profiles["mine"] = tight // another algorithm, without model state
			case 20 * time.Hour:
				after = b.advice("web", "app").Target
			case 29 * time.Hour:
				later = b.advice("web", "app").Target
			}
		})
		if after != before || before.Memory < 500<<20 {
			t.Errorf("target changed from %v to %v", before, after)
		}
		if !near(later.Memory, 200<<20) {
			t.Errorf("target after a day: %v", later)
		}
	})
}

func TestRecommender_storedModelStateIsUnusable_holdsRecommendationForADay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, change := range map[string]func(*bench){
		"another profile":  func(b *bench) { b.rename("web", "busy-hours") },
		"lost model state": func(b *bench) { clear(b.remembered.stored) },
		"model state of a comparison profile": func(b *bench) {
			for _, histories := range b.remembered.stored {
				for i := range histories {
					histories[i].Form = "window/1"
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(700, 500<<20)
				b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
				b.run(2 * time.Hour)
				before := b.advice("web", "app").Target
				change(b)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				var after, later cluster.Resources
				b.during(30*time.Hour, func(at time.Duration) {
					switch at {
					case 20 * time.Hour:
						after = b.advice("web", "app").Target
					case 29 * time.Hour:
						later = b.advice("web", "app").Target
					}
				})
				if after != before {
					t.Errorf("target changed from %v to %v", before, after)
				}
				if later.Memory > 300<<20 {
					t.Errorf("target after a day: %v", later)
				}
			})
		})
	}
}

func TestRecommender_restartDuringHold_holdContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, p := range recommend.Builtins() {
		if p.Extend == nil {
			continue // default has no model state, so it is never held
		}
		t.Run(p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(700, 500<<20)
				from := "balanced"
				if slices.Contains([]string{"balanced", "cost", "critical", "packed"}, p.Name) {
					from = "busy-hours" // a profile with another algorithm
				}
				b.autoscale("web", b.deployment("web", 2, "app")).Recommender = from
				var before, after, later cluster.Resources
				b.during(5*time.Hour, func(at time.Duration) {
					if at == 2*time.Hour {
						before = b.advice("web", "app").Target
						b.rename("web", p.Name)
						b.use["app"] = cluster.Amounts(300, 200<<20)
					}
				})
				b.during(40*time.Hour, func(at time.Duration) {
					switch at {
					case 19 * time.Hour:
						after = b.advice("web", "app").Target
					case 39 * time.Hour:
						later = b.advice("web", "app").Target
					}
				})
				if after != before {
					t.Errorf("target changed from %v to %v", before, after)
				}
				if later.Memory > before.Memory*2/3 || later.CPU > before.CPU*2/3 {
					t.Errorf("target after a day: %v, before: %v", later, before)
				}
			})
		})
	}
}

// rename changes the profile of an autoscaler.
func (b *bench) rename(name, profile string) {
	b.change(name, func(a *cluster.Autoscaler) { a.Recommender = profile })
}

func (b *bench) change(name string, change func(*cluster.Autoscaler)) {
	for i, a := range b.autoscalers {
		if a.Name == name {
			next := *a
			next.StatusOutdated = true
			change(&next)
			b.autoscalers[i] = &next
		}
	}
}

// leak increases the memory usage of container app by b.leaks per day. It is a callback of during.
func (b *bench) leak(time.Duration) {
	now := time.Now()
	if !b.leaked.IsZero() {
		u := b.use["app"]
		b.use["app"] = cluster.Amounts(u.CPU, u.Memory+int64(float64(b.leaks)*now.Sub(b.leaked).Hours()/24))
	}
	b.leaked = now
}

func TestRecommender_invalidOrDeletedProfile_keepsLastValidParameters(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, tt := range map[string]struct {
		break_          func(b *bench)
		reason, message string
	}{
		"invalid": {func(b *bench) { b.profiles["mine"] = wrong }, "Invalid",
			"SizingProfile mine is invalid: spec.busyHours.criticality must be between 1 and 3, got 99;"},
		"field of a later version": {func(b *bench) { b.profiles["mine"] = `{"base": "busy-hours", "magic": true}` }, "Invalid", `unknown field "magic"`},
		"base of an earlier version": {func(b *bench) { b.profiles["mine"] = `{"base": "window-max", "window": {"margin": 0}}` }, "Invalid",
			"is a comparison profile, which only podfit backtest has"},
		"deleted":         {func(b *bench) { delete(b.profiles, "mine") }, "Deleted", "SizingProfile mine was deleted;"},
		"without its CRD": {func(b *bench) { b.profilesErr = kube.ErrUnsupported }, "Deleted", "SizingProfile mine was deleted;"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.profiles = map[string]string{"mine": tight}
				b.use["app"] = cluster.Amounts(300, 200<<20)
				b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "mine"
				check := func(when string, cpu int64, then string) {
					t.Helper()
					if got := b.advice("web", "app").Target; !near(got.CPU, cpu) {
						t.Errorf("%s: target %v", when, got)
					}
					c := b.condition("web", v1alpha1.ConditionSizingProfileUsable)
					if then == "" {
						if c.Status != watcher.Removed {
							t.Errorf("%s: SizingProfileUsable is %+v", when, c)
						}
						return
					}
					if c.Status != watcher.False || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) || !strings.Contains(c.Message, then) {
						t.Errorf("%s: SizingProfileUsable is %+v", when, c)
					}
				}
				b.during(6*time.Hour, func(at time.Duration) {
					switch at {
					case time.Hour:
						check("valid", 300, "")
						tt.break_(b)
					case 2 * time.Hour:
						check("an hour after the change", 300, "its last valid parameters stay in use")
						b.use["app"] = cluster.Amounts(500, 200<<20)
					case 3 * time.Hour:
						check("two hours after the change", 500, "its last valid parameters stay in use")
					}
				})
				b.use["app"] = cluster.Amounts(900, 200<<20)
				b.run(2 * time.Hour) // a new process without valid parameters
				check("after a restart", 500, "the last recommendation is kept")
				b.run(26 * time.Hour) // longer than until stored data that is not needed is deleted
				b.profiles["mine"], b.profilesErr = tight, nil
				b.run(10 * time.Minute)
				check("valid again", 900, "")
				b.use["app"] = cluster.Amounts(100, 200<<20)
				b.run(time.Hour)
				check("after a drop of usage", 900, "")
			})
		})
	}
}

func TestRecommender_profilesCannotBeListed_parametersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": tight}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "mine"
		b.during(3*time.Hour, func(at time.Duration) {
			if at == time.Hour {
				b.profilesErr = errors.New("the API server is away")
				b.use["app"] = cluster.Amounts(400, 200<<20)
			}
		})
		if got := b.advice("web", "app").Target; !near(got.CPU, 400) {
			t.Errorf("target during the failure: %v", got)
		}
		writes := b.writes
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; !near(got.CPU, 400) || b.writes != writes {
			t.Errorf("after a restart: target %v, %d writes", got, b.writes-writes)
		}
	})
}

func TestRecommender_vpaNamesOtherRecommender_profileConditionIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": wrong}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 2, "app")
		b.autoscale("web", web).Recommender = "mine"
		b.run(10 * time.Minute)
		if c := b.condition("web", v1alpha1.ConditionSizingProfileUsable); c.Reason != "Invalid" || len(b.autoscalers[0].Advice) > 0 ||
			!strings.Contains(c.Message, "must be between 1 and 3, got 99; no recommendation is made. Correct it: kubectl edit sizingprofile mine") {
			t.Fatalf("with a profile that never was valid: condition %+v, recommendation %v", c, b.autoscalers[0].Advice)
		}
		b.rename("web", "other-recommender")
		b.run(10 * time.Minute)
		if c := b.condition("web", v1alpha1.ConditionSizingProfileUsable); c.Status != watcher.Removed || b.autoscalers[0].ProfileProblem != "" {
			t.Errorf("SizingProfileUsable of a VPA of another recommender is %+v", c)
		}
		b.written = map[cluster.Key][]watcher.Condition{}
		b.run(10 * time.Minute)
		if len(b.written) > 0 {
			t.Errorf("the status of a VPA of another recommender was written: %v", b.written)
		}
	})
}

// The other recommender writes the conditions that it finds back, with the present generation. The checkpoints show that the VPA had another
// profile. Checkpoints of earlier versions do not contain the profile.
func TestRecommender_restartAfterDeletedProfileAndMoveToOtherRecommender_isNotServed(t *testing.T) {
	for name, tt := range map[string]struct {
		recommender string
		old         bool // checkpoints of an earlier version
		served      bool
	}{
		"moved":                       {recommender: "other-recommender"},
		"not moved":                   {recommender: "mine", served: true},
		"not moved, old checkpoints":  {recommender: "mine", old: true, served: true},
		"moved to a built-in profile": {recommender: "balanced", served: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.profiles = map[string]string{"mine": tight}
				b.use["app"] = cluster.Amounts(300, 200<<20)
				b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "mine"
				b.during(3*time.Hour, func(at time.Duration) {
					if at == 2*time.Hour {
						delete(b.profiles, "mine")
					}
				})
				if b.autoscalers[0].ProfileProblem != "Deleted" {
					t.Fatalf("the profile problem is %q, want Deleted", b.autoscalers[0].ProfileProblem)
				}
				for key, c := range b.stored {
					if c.Profile != "mine" {
						t.Errorf("%v names the profile %q, want mine", key, c.Profile)
					}
					if tt.old {
						c.Profile = ""
						b.stored[key] = c
					}
				}
				b.change("web", func(a *cluster.Autoscaler) {
					a.Recommender = tt.recommender
					a.StatusOutdated = false
				})
				r := b.run(10 * time.Minute)
				if got := r.serves(b.autoscalers[0]); got != tt.served {
					t.Errorf("served %t, want %t", got, tt.served)
				}
			})
		})
	}
}

// Each of podfit's own conditions is set while its cause lasts, and does not change between passes or after a restart, so its transition
// time stays. There are no other conditions except upstream's.
func TestRecommender_causeOfConditionEnds_conditionIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, tt := range map[string]struct {
		kind    v1.VerticalPodAutoscalerConditionType
		profile string
		mode    cluster.Mode
		takes   time.Duration // until the condition is set
		cured   func(b *bench)
		goes    time.Duration // until the condition is removed
	}{
		"evicting mode, then resizing mode": {
			v1alpha1.ConditionDisruptiveProfile, "cost", cluster.Recreate, time.Hour,
			func(b *bench) { b.change("web", func(a *cluster.Autoscaler) { a.Mode = cluster.InPlaceOrRecreate }) }, time.Minute,
		},
		"evicting mode, then default profile": {
			v1alpha1.ConditionDisruptiveProfile, "critical", cluster.Auto, time.Hour, func(b *bench) { b.rename("web", "") }, time.Minute,
		},
		"invalid profile, then valid": {
			v1alpha1.ConditionSizingProfileUsable, "bad", cluster.Off, time.Hour, func(b *bench) { b.profiles["bad"] = tight }, time.Minute,
		},
		"invalid profile, then default profile": {
			v1alpha1.ConditionSizingProfileUsable, "bad", cluster.Off, time.Hour, func(b *bench) { b.rename("web", "default") }, time.Minute,
		},
		"leak, then fixed": {
			v1alpha1.ConditionMemoryLeakSuspected, "balanced", cluster.Off, 8 * 24 * time.Hour,
			func(b *bench) { b.leaks = 0 }, 26 * 24 * time.Hour,
		},
		"leak, then default profile": {
			v1alpha1.ConditionMemoryLeakSuspected, "critical", cluster.Off, 8 * 24 * time.Hour,
			func(b *bench) { b.rename("web", "default") }, time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.config.Interval = 10 * time.Minute
				b.profiles = map[string]string{"bad": wrong}
				if tt.kind == v1alpha1.ConditionMemoryLeakSuspected {
					b.leaks = 100 << 20
				}
				b.use["app"] = cluster.Amounts(100, 500<<20)
				a := b.autoscale("web", b.deployment("web", 2, "app"))
				a.Recommender, a.Mode = tt.profile, tt.mode
				b.during(tt.takes, b.leak)
				key := a.Key
				conditions := func() (own watcher.Condition, n int) {
					for _, c := range b.stand[key] {
						if c.Type == tt.kind {
							own, n = c, n+1
						} else if c.Type != v1.RecommendationProvided {
							t.Errorf("unexpected condition %+v", c)
						}
					}
					return own, n
				}
				first, n := conditions()
				if n != 1 {
					t.Fatalf("conditions are %+v, want one with the type", b.stand[key])
				}
				b.during(time.Hour, b.leak) // six passes after a restart
				if again, _ := conditions(); again != first {
					t.Errorf("condition is %+v, before the restart %+v", again, first)
				}
				tt.cured(b)
				b.during(tt.goes+time.Minute, b.leak)
				if _, n := conditions(); n != 0 {
					t.Errorf("conditions after the cause ended: %+v", b.stand[key])
				}
			})
		})
	}
}

// Without a profile, or with default, the status contains only conditions that upstream writes.
func TestRecommender_defaultProfile_writesOnlyUpstreamConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config.Interval = 10 * time.Minute
		b.leaks = 100 << 20
		b.use["app"] = cluster.Amounts(100, 500<<20)
		for _, name := range []string{"", "default"} {
			for _, mode := range []cluster.Mode{cluster.Recreate, cluster.Auto, cluster.Off, cluster.InPlaceOrRecreate, cluster.Initial} {
				a := b.autoscale("vpa-"+name+mode.String(), b.deployment("web-"+name+mode.String(), 1, "app"))
				a.Recommender, a.Mode, a.Created = name, mode, time.Now().Add(-time.Hour)
			}
		}
		tried := b.autoscale("tried", b.autoscalers[0].Target) // its model state detects the leak
		tried.Recommender, tried.Mode = "balanced", cluster.Off
		upstreams := []v1.VerticalPodAutoscalerConditionType{v1.RecommendationProvided, v1.NoPodsMatched, v1.ConfigUnsupported, v1.ConfigDeprecated}
		check := func(when string) {
			t.Helper()
			for _, a := range b.autoscalers {
				for _, c := range b.stand[a.Key] {
					if a.Name != "tried" && !slices.Contains(upstreams, c.Type) {
						t.Errorf("%s: %s has condition %+v", when, a.Name, c)
					}
				}
			}
		}
		b.during(8*24*time.Hour, b.leak)
		check("with pods")
		if !slices.ContainsFunc(b.stand[tried.Key], func(c watcher.Condition) bool { return c.Type == v1alpha1.ConditionMemoryLeakSuspected }) {
			t.Error("the VPA with a profile does not report the leak")
		}
		b.pods = nil
		b.run(time.Hour)
		check("without pods")
		b.problem = "Cannot read targetRef. Reason: it is away"
		b.run(time.Hour)
		check("without a target")
	})
}

func TestRecommender_vpaNamesOtherRecommender_disruptionConditionIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		a := b.autoscale("web", b.deployment("web", 2, "app"))
		a.Recommender, a.Mode = "balanced", cluster.Recreate
		b.run(10 * time.Minute)
		if c := b.condition("web", v1alpha1.ConditionDisruptiveProfile); c.Status != watcher.True {
			t.Fatalf("DisruptiveProfile is %+v", c)
		}
		b.rename("web", "other-recommender")
		b.run(10 * time.Minute)
		if c := b.condition("web", v1alpha1.ConditionDisruptiveProfile); c.Status != watcher.Removed || b.autoscalers[0].Remarked {
			t.Errorf("DisruptiveProfile of a VPA of another recommender is %+v", c)
		}
		writes := b.writes
		b.run(10 * time.Minute)
		if b.writes != writes {
			t.Errorf("the status of a VPA of another recommender was written %d times", b.writes-writes)
		}
	})
}

func TestRecommender_deletedProfileWithoutReferences_isForgottenAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"named": tight, "left": tight, "never": tight, "kept": tight}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		named, left := b.deployment("named", 1, "app"), b.deployment("left", 1, "app")
		b.autoscale("named", named).Recommender = "named"
		b.autoscale("left", left).Recommender = "left"
		r := b.during(60*time.Hour, func(at time.Duration) {
			switch at {
			case time.Hour:
				b.profiles = map[string]string{"kept": tight}
			case 2 * time.Hour:
				b.rename("left", "other-recommender")
			case 25*time.Hour + 30*time.Minute: // referenced again within a day
				b.rename("left", "left")
			case 26 * time.Hour:
				if c := b.condition("left", v1alpha1.ConditionSizingProfileUsable); c.Reason != "Deleted" {
					t.Errorf("the profile was forgotten too early: %+v", c)
				}
				b.rename("left", "other-recommender")
			}
		})
		for name, want := range map[string]bool{"named": true, "kept": true, "left": false, "never": false} {
			if got := r.catalog.Contains(&cluster.Autoscaler{Recommender: name}); got != want {
				t.Errorf("the catalog contains %s: %t, want %t", name, got, want)
			}
		}
		if c := b.condition("left", v1alpha1.ConditionSizingProfileUsable); c.Status != watcher.Removed {
			t.Errorf("SizingProfileUsable is %+v", c)
		}
	})
}

// A profile that is deleted and created again with other parameters is another one, whether or not it was forgotten in between.
func TestRecommender_profileIsCreatedAgain_newParametersApplyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": tight}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 2, "app")
		b.autoscale("web", web).Recommender = "mine"
		b.during(30*time.Hour, func(at time.Duration) {
			switch at {
			case time.Hour:
				b.autoscalers, b.profiles = nil, map[string]string{}
			case 25*time.Hour - time.Minute, 25 * time.Hour, 25*time.Hour + time.Minute:
				if b.profiles["mine"] == "" {
					b.profiles["mine"] = loose
					b.autoscale("web", web).Recommender = "mine"
				}
			}
		})
		if got := b.advice("web", "app").Target; !near(got.CPU, 600) {
			t.Errorf("target %v, want that of the new parameters", got)
		}
	})
}

func TestRecommender_sizingProfileWithBuiltInName_isIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"busy-hours": loose}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "busy-hours"
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; !near(got.CPU, 390) {
			t.Errorf("target %v, want 300m × 1.3 of the built-in profile", got)
		}
		if c := b.condition("web", v1alpha1.ConditionSizingProfileUsable); c.Status != watcher.Removed {
			t.Errorf("SizingProfileUsable is %+v", c)
		}
	})
}

func TestRecommender_profileWithNodeBound_limitsCPUToShareOfSmallestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"half": `{"base": "busy-hours", "busyHours": {"mostOfNode": 0.5}}`}
		b.nodes = []cluster.Node{
			{Name: "large", Allocatable: cluster.Amounts(16000, 64<<30), Ready: true},
			{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: true},
			{Name: "control", Allocatable: cluster.Amounts(2000, 16<<30), Ready: true, Tainted: true},
		}
		b.use["app"] = cluster.Amounts(3000, 200<<20)
		for _, name := range []string{"busy-hours", "half", "balanced"} {
			b.autoscale(name, b.deployment(name, 2, "app")).Recommender = name
		}
		b.run(time.Hour)
		for name, want := range map[string]int64{"busy-hours": 1000, "half": 2000} {
			if got := b.advice(name, "app").Target.CPU; got != want {
				t.Errorf("%s: target %dm, want %dm", name, got, want)
			}
		}
		if got := b.advice("balanced", "app").Target.CPU; got < 3000 {
			t.Errorf("balanced: target %dm, want no bound by nodes", got)
		}
	})
}

// After a restart the bound stays, too, while no pods show which nodes they may run on.
func TestRecommender_nodeNotReadyOrNoPods_nodeBoundStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{
			{Name: "large", Allocatable: cluster.Amounts(16000, 64<<30), Ready: true},
			{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: true},
		}
		b.use["app"] = cluster.Amounts(3000, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "busy-hours"
		check := func(when string) {
			t.Helper()
			if got := b.advice("web", "app").Target.CPU; got != 1000 {
				t.Errorf("%s: target %dm, want a quarter of the smallest node", when, got)
			}
		}
		b.during(2*time.Hour, func(at time.Duration) {
			switch at {
			case time.Hour:
				b.nodes[1].Ready = false
			case time.Hour + 2*time.Minute:
				check("while a node is not ready")
				b.pods = nil
			}
		})
		check("without pods")
		b.run(time.Hour)
		check("without pods, after a restart")
	})
}

// Cordoned nodes do not count, so after a restart no node bounds the profile, although its pods run.
func TestRecommender_restartWhileAllNodesAreCordoned_cpuStaysAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Ready: true}}
		b.use["app"] = cluster.Amounts(3000, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "busy-hours"
		check := func(when string) {
			t.Helper()
			if got := b.advice("web", "app"); got.Target.CPU != 1000 || got.Upper.CPU > 1000 || got.Uncapped.CPU < 3000 {
				t.Errorf("%s: got %+v, want a quarter of the node at most, and the uncapped target without this limit", when, got)
			}
		}
		b.run(2 * time.Hour)
		check("before the restart")
		b.nodes[0].Cordoned = true
		b.run(time.Hour)
		check("after a restart while the node is cordoned")
		b.nodes[0] = cluster.Node{Name: "large", Allocatable: cluster.Amounts(16000, 64<<30), Ready: true}
		b.run(2 * time.Hour)
		if got := b.advice("web", "app").Target.CPU; got < 3000 {
			t.Errorf("target %dm, want the new bound of 4000m when a node can be used again", got)
		}
	})
}

func TestRecommender_memoryGrowsSteadily_leakIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.autoscale("web", b.deployment("web", 1, "app", "sidecar")).Recommender = "balanced"
		b.pods[0].Containers[0].Limits = cluster.Amounts(0, 4<<30)
		b.use["sidecar"] = cluster.Amounts(10, 50<<20)
		leak := func(at time.Duration) {
			b.use["app"] = cluster.Amounts(100, int64(500<<20+100*float64(1<<20)*at.Hours()/24))
		}
		b.during(8*24*time.Hour, leak)
		c := b.condition("web", v1alpha1.ConditionMemoryLeakSuspected)
		if c.Status != watcher.True || !strings.HasPrefix(c.Message, "Memory of container app has grown by about 100Mi a day since 2000-01-0") ||
			!strings.Contains(c.Message, ", and at this rate reaches its limit of 4Gi about 2000-02-0") || strings.Contains(c.Message, "sidecar") {
			t.Errorf("MemoryLeakSuspected is %+v", c)
		}
		before := c.Message
		b.run(time.Hour)
		if c := b.condition("web", v1alpha1.ConditionMemoryLeakSuspected); c.Message != before {
			t.Errorf("after a restart: MemoryLeakSuspected is %+v", c)
		}
		b.use["app"] = cluster.Amounts(100, 600<<20)
		b.run(10 * 24 * time.Hour)
		if c := b.condition("web", v1alpha1.ConditionMemoryLeakSuspected); c.Status != watcher.True || !strings.Contains(c.Message, " grew by about 100Mi a day from ") {
			t.Errorf("ten days after the growth ended: MemoryLeakSuspected is %+v", c)
		}
		b.run(8 * 24 * time.Hour)
		if c := b.condition("web", v1alpha1.ConditionMemoryLeakSuspected); c.Status != watcher.Removed {
			t.Errorf("18 days after the growth ended: MemoryLeakSuspected is %+v", c)
		}
	})
}

func TestRecommender_profileForResizesWithEvictingMode_isReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		for name, tt := range map[string]struct {
			profile string
			mode    cluster.Mode
		}{
			"warn-recreate": {"balanced", cluster.Recreate}, "warn-auto": {"cost", cluster.Auto}, "in-place": {"balanced", cluster.InPlaceOrRecreate},
			"in-place-only": {"balanced", cluster.InPlace}, "off": {"balanced", cluster.Off}, "initial": {"balanced", cluster.Initial},
			"default": {"default", cluster.Recreate},
		} {
			a := b.autoscale(name, b.deployment(name, 2, "app"))
			a.Recommender, a.Mode = tt.profile, tt.mode
		}
		b.run(10 * time.Minute)
		for _, a := range b.autoscalers {
			c, want := b.condition(a.Name, v1alpha1.ConditionDisruptiveProfile), watcher.Removed
			if strings.HasPrefix(a.Name, "warn") {
				want = watcher.True
			}
			if string(c.Status) != want || want == watcher.True && !strings.Contains(c.Message, "Set updateMode InPlaceOrRecreate") {
				t.Errorf("%s: DisruptiveProfile is %+v", a.Name, c)
			}
		}
	})
}

func TestRecommender_profileForResizes_isReportedOnlyByGoverningVPAWithPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 2, "app")
		for i, name := range []string{"governs", "is younger"} {
			a := b.autoscale(name, web)
			a.Mode, a.Recommender, a.Created = cluster.Recreate, "balanced", time.Now().Add(time.Duration(i-2)*time.Hour)
		}
		later := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "later"}
		for name, w := range map[string]cluster.Workload{"has no pods": later, "has no target": {}} {
			a := b.autoscale(name, w)
			a.Mode, a.Recommender = cluster.Recreate, "balanced"
		}
		check := func(when string, warned ...string) {
			t.Helper()
			for _, a := range b.autoscalers {
				if a.Remarked != slices.Contains(warned, a.Name) {
					t.Errorf("%s: DisruptiveProfile of %s is %+v", when, a.Name, b.condition(a.Name, v1alpha1.ConditionDisruptiveProfile))
				}
			}
		}
		b.run(10 * time.Minute)
		check("in the beginning", "governs")
		b.deployment("later", 1, "app")
		b.run(10 * time.Minute)
		check("after pods were created", "governs", "has no pods")
		pods := b.pods
		b.pods = nil
		b.run(10 * time.Minute)
		check("without pods", "governs", "has no pods")
		b.pods, b.problem = pods, "The target has a parent controller but it should point to a topmost well-known or scalable controller"
		b.run(10 * time.Minute)
		check("with an unsupported target")
	})
}

func TestProfileReader_repeatedError_isLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var log bytes.Buffer
		d := b.dependencies()
		d.log = slog.New(slog.NewTextHandler(&log, nil))
		p := newRecommender(b.config, d).profiles
		read := func(err error) string {
			log.Reset()
			b.profilesErr = err
			for range 3 {
				p.read(t.Context())
			}
			return log.String()
		}
		for _, step := range []struct {
			err  error
			want string
		}{
			{errors.New("the API server is away"), "profiles that were read before stay in use"},
			{kube.ErrUnsupported, "podfit crds | kubectl apply --server-side --force-conflicts -f -"},
			{nil, "Listed SizingProfiles after earlier failures"},
			{kube.ErrForbidden, "let the recommender list sizingprofiles.podfit.dev"},
			{nil, "Listed SizingProfiles after earlier failures"},
		} {
			if got := read(step.err); strings.Count(got, "\n") != 1 || !strings.Contains(got, step.want) {
				t.Errorf("after error %v the log is: %s", step.err, got)
			}
		}
	})
}

// Deployment tools replace objects by deleting and creating them.
func TestRecommender_vpaIsCreatedAgain_modelStateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(700, 500<<20)
		web := b.deployment("web", 2, "app")
		b.autoscale("web", web).Recommender = "balanced"
		b.during(5*time.Hour, func(at time.Duration) {
			switch at {
			case time.Hour:
				b.use["app"] = cluster.Amounts(300, 200<<20)
			case 3 * time.Hour:
				b.autoscalers = nil
			case 3*time.Hour + 20*time.Minute:
				b.autoscale("web", web).Recommender = "balanced"
			}
		})
		if got := b.advice("web", "app").Target; got.Memory < 500<<20 {
			t.Errorf("target %v does not contain the peak of four hours ago", got)
		}
		if len(b.remembered.stored[web]) != 1 {
			t.Error("the model state was not stored again")
		}
	})
}

// A user tries a profile with a second VPA, or applies the profile that was tried.
func TestRecommender_secondVPAWithProfile_bothAreSizedIndependently(t *testing.T) {
	for name, modes := range map[string][2]cluster.Mode{
		"tried":   {cluster.Recreate, cluster.Off},
		"applied": {cluster.Off, cluster.InPlaceOrRecreate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				web := b.deployment("web", 2, "app")
				first := b.autoscale("first", web)
				first.Mode, first.Created = modes[0], time.Now().Add(-time.Hour)
				second := b.autoscale("second", web)
				second.Mode, second.Recommender = modes[1], "busy-hours"
				alone := b.autoscale("alone", b.deployment("alone", 2, "app"))
				first.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(9000, 9<<30)}}}
				alone.Advice = first.Advice
				b.run(time.Hour)
				if got := b.advice("second", "app").Target; !near(got.CPU, 390) {
					t.Errorf("busy-hours recommends %v", got)
				}
				if got, want := b.advice("first", "app").Target, b.advice("alone", "app").Target; got != want {
					t.Errorf("default recommends %v with a second VPA, %v without", got, want)
				}
			})
		})
	}
}

// A workload has the model state of one profile. A VPA that needs another form reports a conflict.
func TestRecommender_profilesWithDifferentModelState_conflictIsReported(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second string
		modes         [2]cluster.Mode
		conflicting   string // the VPA that reports the conflict: "first", "second", or ""
	}{
		"both applied":                  {"balanced", "busy-hours", [2]cluster.Mode{cluster.InPlaceOrRecreate, cluster.Initial}, "second"},
		"second is Off":                 {"balanced", "autopilot", [2]cluster.Mode{cluster.InPlaceOrRecreate, cluster.Off}, "second"},
		"first is Off":                  {"autopilot", "balanced", [2]cluster.Mode{cluster.Off, cluster.InPlaceOrRecreate}, "first"},
		"both Off":                      {"autopilot", "busy-hours", [2]cluster.Mode{cluster.Off, cluster.Off}, "second"},
		"by request, with default":      {"default", "by-request", [2]cluster.Mode{cluster.Recreate, cluster.Off}, "second"},
		"by request, with another":      {"cost", "by-request", [2]cluster.Mode{cluster.InPlaceOrRecreate, cluster.Off}, "second"},
		"first has no model state":      {"default", "autopilot", [2]cluster.Mode{cluster.Recreate, cluster.Off}, ""},
		"second has no model state":     {"autopilot", "default", [2]cluster.Mode{cluster.InPlaceOrRecreate, cluster.Off}, ""},
		"same algorithm":                {"balanced", "critical", [2]cluster.Mode{cluster.InPlaceOrRecreate, cluster.Off}, ""},
		"first has another recommender": {"other-recommender", "autopilot", [2]cluster.Mode{cluster.Off, cluster.Off}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.profiles = map[string]string{"by-request": `{"base": "default", "histogram": {"weight": "request"}}`}
				b.use["app"] = cluster.Amounts(300, 200<<20)
				web := b.deployment("web", 2, "app")
				for i, profile := range []string{tt.first, tt.second} {
					a := b.autoscale([]string{"first", "second"}[i], web)
					a.Recommender, a.Mode, a.Created = profile, tt.modes[i], time.Now().Add(time.Duration(i-2)*time.Hour)
				}
				check := func(when string) {
					t.Helper()
					for _, a := range b.autoscalers {
						if a.Recommender == "other-recommender" {
							continue
						}
						c := b.condition(a.Name, v1alpha1.ConditionSizingProfileUsable)
						if a.Name != tt.conflicting {
							if c.Status != watcher.Removed || len(a.Advice) == 0 {
								t.Errorf("%s: %s has condition %+v and recommendation %v", when, a.Name, c, a.Advice)
							}
							continue
						}
						other, kept := map[string]string{"first": "second", "second": "first"}[a.Name], tt.first
						if a.Name == "first" {
							kept = tt.second
						}
						want := fmt.Sprintf("Deployment web already has model state for profile %s (VerticalPodAutoscaler %s). Profile %s uses another algorithm, so no recommendation is made.",
							kept, other, a.Recommender)
						if c.Status != watcher.False || c.Reason != v1alpha1.ReasonOtherProfile || !strings.HasPrefix(c.Message, want) || len(a.Advice) > 0 {
							t.Errorf("%s: %s has condition %+v and recommendation %v, want %s", when, a.Name, c, a.Advice, want)
						}
					}
				}
				b.run(time.Hour)
				check("in the beginning")
				b.run(time.Hour)
				check("after a restart")
				if tt.conflicting == "" {
					return
				}
				b.rename(map[string]string{"first": "second", "second": "first"}[tt.conflicting], "other-recommender")
				b.run(10 * time.Minute)
				if c := b.condition(tt.conflicting, v1alpha1.ConditionSizingProfileUsable); c.Status != watcher.Removed {
					t.Errorf("without the other VPA SizingProfileUsable is %+v", c)
				}
				b.advice(tt.conflicting, "app")
			})
		})
	}
}

// Such a profile stores no model state.
func TestRecommender_restartWithProfileWithoutStoredState_recommendationsAreNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": `{"base": "default", "histogram": {"weight": "request"}}`}
		b.use["app"] = cluster.Amounts(300, 2000<<20)
		web := b.deployment("web", 2, "app")
		b.autoscale("web", web).Recommender = "mine"
		b.run(3 * time.Hour)
		if r := b.run(3 * time.Minute); !r.workloads.State(web).HoldUntil.IsZero() {
			t.Errorf("recommendations are held until %v", r.workloads.State(web).HoldUntil)
		}
	})
}

func TestRecommender_statusWithoutUncappedTarget_isHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		a := b.autoscale("web", b.deployment("web", 2, "app", "quiet"))
		a.Recommender = "busy-hours"
		a.Advice = []cluster.Advice{
			{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(900, 900<<20)}}, {Container: "quiet"},
		}
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; got != cluster.Amounts(900, 900<<20) {
			t.Errorf("target decreased to %v", got)
		}
	})
}
