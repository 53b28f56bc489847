// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
)

func TestLearning_annotationAndProfile_annotationWins(t *testing.T) {
	defaults := cluster.BoostLearning{MaxPercent: 400, MaxDuration: 10 * time.Minute}
	on := defaults
	on.On = true
	for name, c := range map[string]struct {
		annotation string // "" for none
		spec       string
		want       cluster.BoostLearning
		problem    string
	}{
		"neither":               {"", `{}`, cluster.BoostLearning{}, ""},
		"an annotation":         {"true", `{}`, cluster.BoostLearning{On: true, Set: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}, ""},
		"a profile":             {"", `{"startupBoost":{"learn":true}}`, on, ""},
		"a profile's bounds":    {"true", `{"startupBoost":{"maxFactor":2,"maxDuration":"1m"}}`, cluster.BoostLearning{On: true, Set: true, MaxPercent: 200, MaxDuration: time.Minute}, ""},
		"switched off":          {"false", `{"startupBoost":{"learn":true}}`, cluster.BoostLearning{Set: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}, ""},
		"an invalid annotation": {"yes\n", `{}`, cluster.BoostLearning{}, `annotation podfit.dev/learn-startup-boost must be true or false, got "yes"; it has no effect`},
		"a long annotation":     {strings.Repeat("x", 1<<20), `{}`, cluster.BoostLearning{}, `must be true or false, got "xxx`},
		"an invalid annotation and a profile": {
			"1", `{"startupBoost":{"learn":true}}`, on, "annotation podfit.dev/learn-startup-boost",
		},
		"a factor below the bounds": {"", `{"startupBoost":{"learn":true,"maxFactor":-1}}`, cluster.BoostLearning{}, "startupBoost.maxFactor must be between 1.1 and 10, got -1"},
		"a factor above the bounds": {"", `{"startupBoost":{"learn":true,"maxFactor":1e300}}`, cluster.BoostLearning{}, "startupBoost.maxFactor"},
		"a duration that is none":   {"", `{"startupBoost":{"learn":true,"maxDuration":"x"}}`, cluster.BoostLearning{}, `startupBoost.maxDuration must be between 0s and 15m0s, got "x"`},
		"another type":              {"", `{"startupBoost":{"learn":"true"}}`, defaults, ""},
		"no spec":                   {"", ``, cluster.BoostLearning{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if c.annotation != "" {
				annotations[v1alpha1.AnnotationLearnStartupBoost] = c.annotation
			}
			a := Autoscaler(&v1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}})
			got := a.Learning.Under(ProfileOf("mine", []byte(c.spec)).Learning)
			if !strings.Contains(got.Problem, c.problem) || c.problem == "" && got.Problem != "" || len(got.Problem) > 400 {
				t.Errorf("problem %q, want %q", got.Problem, c.problem)
			}
			got.Problem = ""
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	if got := ProfileOf("balanced", []byte(`{"startupBoost":{"learn":true}}`)).Learning; got != (cluster.BoostLearning{}) {
		t.Errorf("a SizingProfile with the name of a built-in profile has the effect %+v", got)
	}
}

// statusWith returns the autoscaler with a recommendation of 200m and amounts that are not CPU or memory.
func statusWith(amounts map[corev1.ResourceName]string) *cluster.Autoscaler {
	uncapped := corev1.ResourceList{}
	for name, text := range amounts {
		uncapped[name] = resource.MustParse(text)
	}
	o := &v1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationLearnStartupBoost: "true"}}}
	o.Status.Recommendation = &v1.RecommendedPodResources{ContainerRecommendations: []v1.RecommendedContainerResources{{
		ContainerName: "app", Target: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}, UncappedTarget: uncapped,
	}}}
	return Autoscaler(o)
}

func TestLearntBoost_writtenAndRead_isTheSame(t *testing.T) {
	for _, want := range []cluster.LearntBoost{
		{}, {Starts: 2}, {Starts: 7, Percent: 250, Duration: 2 * time.Minute}, {Starts: 10, Percent: 120}, {Starts: 10, Percent: 1000, Duration: 15 * time.Minute},
	} {
		list := WithLearntBoost(nil, want)
		if got := learntBoost(list); got != want {
			t.Errorf("%+v was read as %+v", want, got)
		}
		if want.Starts == 0 && list != nil {
			t.Errorf("%v for no starts", list)
		}
	}
}

func TestLearntBoost_hostileStatus_hasNoEffect(t *testing.T) {
	const percent, seconds, starts = v1alpha1.StartupBoostPercent, v1alpha1.StartupBoostSeconds, v1alpha1.StartupBoostStarts
	for name, amounts := range map[string]map[corev1.ResourceName]string{
		"a huge factor":                {percent: "1e18", starts: "5"},
		"a factor above the largest":   {percent: "1001", starts: "5"},
		"a factor that is not in int":  {percent: "4294967546", starts: "5"}, // 250 in 32 bits
		"a negative factor":            {percent: "-250", starts: "5"},
		"a factor that lowers CPU":     {percent: "50", starts: "5"},
		"a factor of one":              {percent: "100", starts: "5"},
		"a tiny factor":                {percent: "1n", starts: "5"},
		"a huge duration":              {percent: "250", seconds: "9e18", starts: "5"},
		"a negative duration":          {percent: "250", seconds: "-1", starts: "5"},
		"a duration above the longest": {percent: "250", seconds: "901", starts: "5"},
		"a negative number of starts":  {percent: "250", starts: "-5"},
		"a huge number of starts":      {percent: "250", starts: "1Ei"},
		"nothing":                      {},
	} {
		t.Run(name, func(t *testing.T) {
			a := statusWith(amounts)
			if got := a.LearntBoostOf("app"); got != nil {
				t.Errorf("boost %+v", got)
			}
			if got := a.AdviceFor("app").Target.CPU; got != 200 {
				t.Errorf("the target is %d", got)
			}
		})
	}
	if got := statusWith(map[corev1.ResourceName]string{percent: "900", seconds: "800", starts: "5"}).LearntBoostOf("app"); got == nil || *got != (cluster.Boost{Percent: 400, Duration: 10 * time.Minute}) {
		t.Errorf("a large boost is not bounded by the settings: %+v", got)
	}
}
