// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
)

func TestRules_settings_invalidOnesHaveNoEffectAndAreReported(t *testing.T) {
	got := Rules(map[string]string{rollout.AnnotationTolerance: "2\n"})
	const want = `annotation podfit.dev/eviction-tolerance must be a number from 0 to 1, such as 0.25, got "2 "; it has no effect`
	if got.EvictionTolerance.Set || got.SettingProblem != want {
		t.Errorf("got %+v, want the problem %s", got.Settings, want)
	}
	if got := Rules(map[string]string{rollout.AnnotationTolerance: "0.2"}); got.EvictionTolerance.Or(1) != 0.2 || got.SettingProblem != "" {
		t.Errorf("got %+v", got.Settings)
	}
}

func TestRules_changeWindows_areParsedOrRejectedWithTheMistake(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		windows int
		problem string
	}{
		"one":                    {"0 22 * * 1-5; 4h; Europe/Berlin", 1, ""},
		"without a zone":         {"0 22 * * *;4h", 1, ""},
		"two lines":              {"0 22 * * 1-5; 4h; UTC\n0 8 * * sat,sun; 10h; UTC\n", 2, ""},
		"separated by a bar":     {"0 22 * * 1-5; 4h; UTC | 0 8 * * 6; 10h; UTC", 2, ""},
		"empty":                  {"", 0, "the annotation has no window"},
		"only separators":        {"|\n|", 0, "the annotation has no window"},
		"unknown zone":           {"0 22 * * *; 4h; Europe/Berln", 0, `unknown time zone "Europe/Berln"`},
		"empty zone":             {"0 22 * * *; 4h; ", 0, "the time zone must be a name"},
		"zone of the container":  {"0 22 * * *; 4h; Local", 0, "the time zone must be a name"},
		"path as a zone":         {"0 22 * * *; 4h; ../../etc/passwd", 0, "unknown time zone"},
		"never fires":            {"0 0 31 2 *; 4h; UTC", 0, "the schedule never fires"},
		"leap day":               {"0 0 29 2 *; 4h; UTC", 1, ""},
		"no duration":            {"0 22 * * *", 0, "must have the form"},
		"too many parts":         {"0 22 * * *; 4h; UTC; x", 0, "must have the form"},
		"duration of zero":       {"0 22 * * *; 0s; UTC", 0, "the duration must be between"},
		"negative duration":      {"0 22 * * *; -4h; UTC", 0, "the duration must be between"},
		"duration too long":      {"0 22 * * *; 745h; UTC", 0, "the duration must be between"},
		"duration without unit":  {"0 22 * * *; 4; UTC", 0, "the duration must have a form such as 4h"},
		"hour out of range":      {"0 24 * * *; 4h; UTC", 0, "parse the schedule"},
		"step of zero":           {"*/0 * * * *; 4h; UTC", 0, "parse the schedule"},
		"four fields":            {"0 22 * *; 4h; UTC", 0, "must have 5 fields"},
		"six fields":             {"0 0 22 * * *; 4h; UTC", 0, "must have 5 fields"},
		"descriptor":             {"@daily; 4h; UTC", 0, "must have 5 fields"},
		"zone inside a schedule": {"TZ=UTC 22 * * *; 4h; UTC", 0, "must have 5 fields"},
		"incomplete zone inside": {"CRON_TZ=; 4h; UTC", 0, "must have 5 fields"},
		"one of two is wrong":    {"0 22 * * *; 4h; UTC | 0 22 * * *; 4h; Mars/Base", 0, "unknown time zone"},
		"too many":               {strings.Repeat("0 1 * * *; 1h; UTC|", 17), 0, "more than 16 windows"},
		"too long":               {strings.Repeat(" ", 4097), 0, "more than 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Rules(map[string]string{rollout.AnnotationWindow: c.text})
			if len(got.Windows) != c.windows || !strings.Contains(got.WindowProblem, c.problem) || (got.WindowProblem == "") != (c.problem == "") {
				t.Errorf("%d windows, problem %q", len(got.Windows), got.WindowProblem)
			}
			if strings.ContainsAny(got.WindowProblem, "\n\r") || len(got.WindowProblem) > 400 {
				t.Errorf("problem %q", got.WindowProblem)
			}
		})
	}
}

func TestRules_window_hasTheSetsOfItsSchedule(t *testing.T) {
	got := Rules(map[string]string{rollout.AnnotationWindow: "15,45 22 * * 1-5; 4h; Europe/Berlin"})
	if len(got.Windows) != 1 {
		t.Fatalf("got %+v", got)
	}
	w := got.Windows[0]
	if w.Minutes != 1<<15|1<<45 || w.Hours != 1<<22 || w.Weekdays != 0b111110 || !w.AnyDay || w.AnyWeekday || w.Duration != 4*time.Hour || w.Zone.String() != "Europe/Berlin" {
		t.Errorf("got %+v", w)
	}
}

func FuzzRules_anyText_neverPanics(f *testing.F) {
	for _, s := range []string{"0 22 * * 1-5; 4h; Europe/Berlin", "TZ= * * * *;1h", "CRON_TZ=UTC 0 0 1 1 1;1h", "* * * * *;1h;UTC|", "1-99999999999 * * * *;1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Rules(map[string]string{rollout.AnnotationWindow: s})
		if got.HasWindows() != (len(got.Windows) > 0 != (got.WindowProblem != "")) {
			t.Errorf("got %+v", got)
		}
		now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		for i := range got.Windows {
			if next, found := rollout.Next(now, &got.Windows[i]); !found || !next.After(now) {
				t.Errorf("next start %v, %t", next, found)
			}
		}
	})
}

func TestRules_freeze_isOnUnlessTheValueMeansFalse(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "True": true, "1": true, "": true, "yes": true, "ture": true, "false": false, "FALSE\n": false, "0": false} {
		if got := Rules(map[string]string{rollout.AnnotationFreeze: value}).Frozen; got != want {
			t.Errorf("%q: frozen %t", value, got)
		}
	}
	if Rules(nil).Frozen {
		t.Error("frozen without the annotation")
	}
}

func TestFreezeSwitch_configMap_isReadWithItsReason(t *testing.T) {
	m := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "podfit-freeze"}, Data: data}
	}
	if got := FreezeSwitch(m(nil)); got.On {
		t.Errorf("got %+v without the key", got)
	}
	if got := FreezeSwitch(m(map[string]string{"freeze": "false", "reason": "x"})); got.On {
		t.Errorf("got %+v", got)
	}
	want := cluster.Freeze{On: true, By: cluster.Key{Namespace: "kube-system", Name: "podfit-freeze"}, Reason: "incident 7  see chat"}
	if got := FreezeSwitch(m(map[string]string{"freeze": "true", "reason": "incident 7\n\tsee chat"})); got != want {
		t.Errorf("got %+v", got)
	}
	if got := FreezeSwitch(m(map[string]string{"freeze": "true", "reason": strings.Repeat("x", 5000)})); len(got.Reason) > 210 {
		t.Errorf("reason of %d bytes", len(got.Reason))
	}
}

func TestCanary_annotations_selectTheMoreCarefulWayIfInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		rollout, duration string
		want              cluster.Canary
		problem           string
	}{
		"canary":            {"canary", "", cluster.Canary{On: true, Set: true, Watch: 10 * time.Minute}, ""},
		"canary, 1h":        {"Canary", "1h", cluster.Canary{On: true, Set: true, Watch: time.Hour}, ""},
		"all":               {"all", "1h", cluster.Canary{Set: true}, ""},
		"misspelled":        {"canry", "", cluster.Canary{On: true, Set: true, Watch: 10 * time.Minute}, "must be canary or all"},
		"invalid duration":  {"canary", "soon", cluster.Canary{On: true, Set: true, Watch: 10 * time.Minute}, "must be between"},
		"negative duration": {"canary", "-1h", cluster.Canary{On: true, Set: true, Watch: 10 * time.Minute}, "must be between"},
		"too long":          {"canary", "25h", cluster.Canary{On: true, Set: true, Watch: 10 * time.Minute}, "must be between"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{annotationRollout: c.rollout}
			if c.duration != "" {
				annotations[annotationCanaryDuration] = c.duration
			}
			got := canary(annotations)
			if problem := got.Problem; !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
				t.Errorf("problem %q", problem)
			}
			got.Problem = ""
			if got != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	for query, want := range map[string]cluster.Canary{
		" sum(rate(errors[2m])) < 1 ": {On: true, Set: true, Watch: 10 * time.Minute, Objective: cluster.Objective{Query: "sum(rate(errors[2m])) < 1", Operator: "<", Limit: 1, Span: 2 * time.Minute}},
		"errors":                      {On: true, Set: true, Watch: 10 * time.Minute, Objective: cluster.Objective{Query: "invalid"}, Problem: "annotation podfit.dev/canary-query is invalid, so no running pod is changed after the canary: it must be a comparison with a number by <, <=, > or >=, such as sum(rate(errors_total[5m])) < 0.1"},
		" ":                           {On: true, Set: true, Watch: 10 * time.Minute},
	} {
		if got := canary(map[string]string{annotationRollout: "canary", annotationCanaryQuery: query}); got != want {
			t.Errorf("%q: %+v", query, got)
		}
	}
	if got := canary(map[string]string{annotationCanaryQuery: "a < 1"}).Under(cluster.Canary{On: true, Watch: time.Hour}); !got.On || got.Objective.Operator != "<" {
		t.Errorf("with a profile: %+v", got)
	}
	if got := canary(nil); got != (cluster.Canary{}) {
		t.Errorf("got %+v without annotations", got)
	}
}

// An object may have annotations of 256 KiB, and podfit keeps a VPA in memory as long as it exists.
func TestCanary_largeAnnotation_isNotKept(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var kept []cluster.Canary
	before := heap()
	for i := range 20 {
		for _, query := range []string{"a < " + strings.Repeat("1", 1<<20), strings.Repeat(" ", 1<<20) + "a < 1"} {
			kept = append(kept, canary(map[string]string{annotationRollout: "canary", annotationCanaryQuery: query}))
		}
		if got := kept[2*i:]; got[0].Objective.Query == "" || got[0].Problem == "" || got[1].Objective.Query != "a < 1" {
			t.Fatalf("canaries %+v", got)
		}
	}
	if grew := heap() - before; grew > 8<<20 {
		t.Errorf("%d canaries take %d MiB", len(kept), grew>>20)
	}
	runtime.KeepAlive(kept)
}

func TestProfileOf_rollout_spec_selectsTheMoreCarefulWayIfInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		spec    string
		want    cluster.Canary
		problem string
	}{
		"canary":           {`{"rollout":"canary"}`, cluster.Canary{On: true, Watch: 10 * time.Minute}, ""},
		"canary, 1h":       {`{"base":"cost","rollout":"canary","canaryDuration":"1h"}`, cluster.Canary{On: true, Watch: time.Hour}, ""},
		"all":              {`{"rollout":"all","canaryDuration":"1h"}`, cluster.Canary{}, ""},
		"unset":            {`{"base":"cost"}`, cluster.Canary{}, ""},
		"misspelled":       {`{"rollout":"canry"}`, cluster.Canary{On: true, Watch: 10 * time.Minute}, "a field of SizingProfile slow is invalid: rollout must be canary or all"},
		"invalid duration": {`{"rollout":"canary","canaryDuration":"1s"}`, cluster.Canary{On: true, Watch: 10 * time.Minute}, "canaryDuration must be between"},
		"wrong type":       {`{"rollout":7}`, cluster.Canary{}, ""},
		"no spec":          {``, cluster.Canary{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ProfileOf("slow", []byte(c.spec)).Canary
			if problem := got.Problem; !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
				t.Errorf("problem %q", problem)
			}
			got.Problem = ""
			if got != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Each annotation of a VPA overrides the field of its profile with the same meaning.
func TestCanary_annotationsAndProfile_annotationsWin(t *testing.T) {
	profile := ProfileOf("slow", []byte(`{"rollout":"canary","canaryDuration":"1h"}`)).Canary
	for name, c := range map[string]struct {
		annotations map[string]string
		profile     cluster.Canary
		on          bool
		watch       time.Duration
	}{
		"no annotation":                {nil, profile, true, time.Hour},
		"all":                          {map[string]string{annotationRollout: "all"}, profile, false, 0},
		"empty":                        {map[string]string{annotationRollout: ""}, profile, false, 0},
		"canary":                       {map[string]string{annotationRollout: "canary"}, profile, true, 10 * time.Minute},
		"only a duration":              {map[string]string{annotationCanaryDuration: "5m"}, profile, true, 5 * time.Minute},
		"only an invalid duration":     {map[string]string{annotationCanaryDuration: "soon"}, profile, true, time.Hour},
		"no profile, only a duration":  {map[string]string{annotationCanaryDuration: "5m"}, cluster.Canary{}, false, 5 * time.Minute},
		"no profile, and no duration":  {nil, cluster.Canary{}, false, 0},
		"no profile, canary, duration": {map[string]string{annotationRollout: "canary", annotationCanaryDuration: "5m"}, cluster.Canary{}, true, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			got := canary(c.annotations).Under(c.profile)
			if got.On != c.on || got.Watch != c.watch {
				t.Errorf("got %+v", got)
			}
			if invalid := c.annotations[annotationCanaryDuration] == "soon"; invalid != strings.Contains(got.Problem, "annotation podfit.dev/canary-duration must be between") {
				t.Errorf("problem %q", got.Problem)
			}
		})
	}
}

// A time zone takes 4 KB, and a tenant may write 16 windows into each of many annotations.
func TestRules_sameZoneInManyWindows_isLoadedOnce(t *testing.T) {
	text := strings.Repeat("0 1 * * *; 1h; Europe/Berlin|", 8) + strings.Repeat("0 1 * * *; 1h; Europe//./Berlin|", 8)
	first, second := Rules(map[string]string{rollout.AnnotationWindow: text}), Rules(map[string]string{rollout.AnnotationWindow: text})
	if len(first.Windows) != 16 || len(second.Windows) != 16 {
		t.Fatalf("%d and %d windows", len(first.Windows), len(second.Windows))
	}
	for _, w := range append(first.Windows, second.Windows...) {
		if w.Zone != first.Windows[0].Zone || w.Zone.String() != "Europe/Berlin" {
			t.Fatalf("another copy of the zone: %v", w.Zone)
		}
	}
	zones.Range(func(name, _ any) bool {
		if strings.Contains(name.(string), "//") {
			t.Errorf("%q is kept, which is another name of the same file", name)
		}
		return true
	})
}
