// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

// hoursOf returns a Sizing whose history has one sample per minute of the last hours.
func hoursOf(a *cluster.Autoscaler, hours int) *rationale.Sizing {
	return samplesOf(a, noon.Add(-time.Duration(hours)*time.Hour), time.Minute)
}

// samplesOf returns a Sizing whose history has samples from a time until noon, and kills.
func samplesOf(a *cluster.Autoscaler, from time.Time, every time.Duration, kills ...time.Time) *rationale.Sizing {
	store := usage.NewStore(usage.DefaultConfig())
	if profile, ok := recommend.Builtin(a.Recommender); ok {
		store.Extend(cart, profile.Extend)
	}
	store.Track(podOf("cart-0"))
	for at := from; !at.After(noon); at = at.Add(min(every, time.Minute)) {
		store.Tick(at)
		store.Observe(usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: "cart-0"}, Container: "app", At: at, CPU: 0.1, Memory: 1e8, Has: cluster.Both})
	}
	for _, at := range kills {
		store.ObserveOOM(usage.OOM{Pod: cluster.Key{Namespace: "shop", Name: "cart-0"}, Container: "app", At: at, Memory: 64 << 20})
	}
	return &rationale.Sizing{Now: noon, Autoscaler: a, Histories: store.All(cart)}
}

// A recommendation that podfit recommend refuses is not judged by podfit explain either, and nobody is told to apply it. What cannot be
// read is no better.
func TestExplain_recommendationIsTooYoungOrUnread_isNotJudgedAndNotUrged(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  cluster.Mode
		hours int
		lack  string
		want  string // "": it is judged
	}{
		"3 hours":           {cluster.Off, 3, "", "not enough usage: 3 hours, 6 are needed"},
		"3 hours, Initial":  {cluster.Initial, 3, "", "not enough usage: 3 hours, 6 are needed"},
		"3 hours, Recreate": {cluster.Recreate, 3, "", "not enough usage: 3 hours, 6 are needed"},
		"30 hours":          {cluster.Off, 30, "", ""},
		"usage is unread":   {cluster.Off, 30, review.UnreadUsage, review.UnreadUsage},
		"profile is unread": {cluster.Off, 0, "whether night is a SizingProfile is not known", "whether night is a SizingProfile is not known"},
	} {
		in := quietInput("cart-0")
		in.Autoscaler.Mode, in.Lack = tt.mode, tt.lack
		in.Autoscaler.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(114, 1<<28)}}}
		if tt.hours > 0 {
			in.Sizing = hoursOf(in.Autoscaler, tt.hours)
			e := review.StoredEvidence(in.Autoscaler, "app", in.Sizing.Histories[0], noon)
			if got := e.Lacking(); tt.lack == "" && got != tt.want {
				t.Errorf("%s: podfit recommend says %q, want %q", name, got, tt.want)
			}
		}
		e := Explain(in)
		if got := slices.Contains(e.Now, "The recommendation is not judged yet: "+tt.want+"."); got != (tt.want != "") {
			t.Errorf("%s: NOW is %q", name, e.Now)
		}
		urged := slices.ContainsFunc(e.You, func(a Advice) bool { return strings.Contains(a.Command, `"updateMode":"InPlaceOrRecreate"`) })
		if urged != (tt.want == "" && !tt.mode.Updates()) {
			t.Errorf("%s: YOU is %q", name, e.You)
		}
	}
}

func TestExplain_history_hasItsAgeAndTheLengthThatIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		span    time.Duration // of the samples
		profile string
		lack    string
		want    []string
	}{
		"seconds":            {45 * time.Second, "default", "", []string{"app 45 s of 8 d"}},
		"minutes":            {12 * time.Minute, "default", "", []string{"app 12 min of 8 d"}},
		"days":               {3 * dayLength, "default", "", []string{"app 3 d of 8 d"}},
		"longer":             {20 * dayLength, "default", "", []string{"app 8 d of 8 d"}},
		"two weeks are kept": {12 * dayLength, "balanced", "", []string{"app 12 d of 14 d"}},
		"usage is unread":    {3 * dayLength, "default", review.UnreadUsage, nil},
	} {
		in := quietInput("cart-0")
		in.Lack, in.Autoscaler.Recommender = tt.lack, tt.profile
		in.Sizing = samplesOf(in.Autoscaler, noon.Add(-tt.span), tt.span/45)
		if got := Explain(in).History; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The kill of a pod that is gone is a high risk for podfit recommend and the page, so the explanation names it, too.
func TestNow_killedPodIsGone_killIsNamed(t *testing.T) {
	in := quietInput("cart-0")
	in.Sizing = samplesOf(in.Autoscaler, noon.Add(-3*dayLength), time.Hour, noon.Add(-2*time.Hour))
	const want = "app was killed for memory at least 1× since 10:00 UTC: a high risk, but no running pod shows it."
	if got := Explain(in).Now; !slices.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
	in.Pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Finished: noon.Add(-2 * dayLength)}
	if got := strings.Join(Explain(in).Now, " "); strings.Contains(got, "no running pod") {
		t.Errorf("with an older kill of a pod that runs: %q", got)
	}
	in.Pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Finished: minutesAgo(5)}
	if got := strings.Join(Explain(in).Now, " "); strings.Contains(got, "no running pod") || !strings.Contains(got, "app was OOM-killed at least once in 1 pod") {
		t.Errorf("with a kill of a pod that runs: %q", got)
	}
}
