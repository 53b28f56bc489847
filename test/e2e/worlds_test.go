// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
)

// Tests that stop parts of the cluster run one after the other, and nearly all of their time is waiting. Therefore a run of all tests is
// divided into groups of tests. Each group is a process of this test binary with a cluster of its own.

// parallelWorlds is the number of groups that run at the same time. With three, two CPUs have spare time.
const parallelWorlds = 3

// busiest is the test that runs before the others: its cases are parallel, and need the CPUs for themselves.
const busiest = "TestPodfit_undisturbedCluster_sizesPods"

// inGroup is the name of the environment variable of a process that runs one group.
const inGroup = "PODFIT_E2E_GROUP"

// durations of tests that take more than a minute, in seconds. They only balance the groups.
var durations = map[string]int{
	"TestUpdater_killedAtStepsOfAPlaceholder_noPlaceholderIsLeft": 320,
	"TestPodfit_replacesUpstream_continuesFromItsState":           135,
	"TestPodfit_APIServerDown_recovers":                           125,
	"TestSizingProfiles_changedAndDeleted_areFollowed":            110,
	"TestUsageHistories_killAndProfileChange_keepModelState":      105,
	"TestRecommender_prometheusHistory_isLearned":                 100,
	"TestRecommender_rightForKubeletsMissing_remedyHelps":         110,
	"TestRun_allJobsInOneProcess_replacesComponents":              90,
	"TestExplain_hundredRandomStates_updaterDoesWhatNextSays":     90,
	"TestUpdater_kubeletLimits_podsAreReplacedOrReverted":         305,
	"TestUpdater_killedAfterTheChangeOfACanary_othersFollow":      380,
	"TestPodfit_metricsAPIDown_keepsRecommendations":              70,
	"TestCapacityPlan_historyAndRestart_planHasDates":             65,
	"TestNamespaceOptIn_lifeOfTheLabel_VPAsFollow":                130,
	"TestGuard_nodeFillsUp_podMovesBeforeKubeletEvicts":           290,
	"TestGuard_nodeUnderPressure_podMovesOnlyWithRightAndFlag":    235,
}

// duration estimates how long a test takes, in seconds.
func duration(test string) int { return cmp.Or(durations[test], 35) }

// wholeRun reports whether this process must divide all tests into groups: no flag selects some of them, and it does not run a group itself.
func wholeRun() bool {
	whole := os.Getenv(inGroup) == ""
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "test.run", "test.skip", "test.list", "test.bench", "test.fuzz":
			whole = whole && f.Value.String() == ""
		}
	})
	return whole
}

// groups divides tests into n groups that take about the same time. Within a group they keep their order.
func groups(tests []string, n int) [][]string {
	order := slices.Clone(tests)
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(duration(b), duration(a)) })
	taken := make([]int, n)
	group := map[string]int{}
	for _, test := range order {
		shortest := slices.Index(taken, slices.Min(taken))
		group[test] = shortest
		taken[shortest] += duration(test)
	}
	divided := make([][]string, n)
	for _, test := range tests {
		divided[group[test]] = append(divided[group[test]], test)
	}
	return slices.DeleteFunc(divided, func(g []string) bool { return len(g) == 0 })
}

func TestGroups_anyNumber_everyTestIsInOneGroup(t *testing.T) {
	const long = "TestUpdater_killedAtStepsOfAPlaceholder_noPlaceholderIsLeft"
	tests := []string{"TestA", "TestB", long, "TestC"}
	for n := range 6 {
		divided := groups(tests, n+1)
		all := slices.Concat(divided...)
		slices.Sort(all)
		if want := slices.Sorted(slices.Values(tests)); !slices.Equal(all, want) {
			t.Errorf("%d groups have %q, want %q", n+1, all, want)
		}
		if len(divided) != min(n+1, len(tests)) {
			t.Errorf("%d groups: got %q", n+1, divided)
		}
		if n > 0 && !slices.ContainsFunc(divided, func(g []string) bool { return slices.Equal(g, []string{long}) }) {
			t.Errorf("%d groups: the test that takes as long as all others is not alone: %q", n+1, divided)
		}
	}
}

// runInGroups runs the busiest test, and then the others in parallel groups. It prints the output of each group when it ends, and returns the exit code.
func runInGroups(ctx context.Context) (int, error) {
	root, err := bed.Root()
	if err != nil {
		return 0, err
	}
	// The groups would all build the same, and a build would slow down the tests of the others.
	if _, err := bed.Build(ctx, root, os.Stderr); err != nil {
		return 0, err
	}
	if _, err := bed.BuildCluster(ctx, root, os.Stderr, bed.PrometheusPart, bed.StateMetricsPart); err != nil {
		return 0, err
	}
	if _, err := bed.BuildUpstream(ctx, root, os.Stderr); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the test binary: %w", err)
	}
	list, err := exec.CommandContext(ctx, self, "-test.list=^Test").Output()
	if err != nil {
		return 0, fmt.Errorf("list the tests: %w", err)
	}
	tests := slices.DeleteFunc(strings.Fields(string(list)), func(name string) bool { return !strings.HasPrefix(name, "Test") })
	for _, name := range slices.Concat(slices.Collect(maps.Keys(durations)), slices.Collect(maps.Keys(needs)), []string{busiest}) {
		if test, _, _ := strings.Cut(name, "/"); !slices.Contains(tests, test) {
			return 0, fmt.Errorf("durations or needs name %s, which is not one of the %d tests", test, len(tests))
		}
	}
	dir, err := os.MkdirTemp("", "podfit-e2e-")
	if err != nil {
		return 0, fmt.Errorf("create a folder for the output of the groups: %w", err)
	}
	defer os.RemoveAll(dir)

	var (
		printing sync.Mutex
		running  sync.WaitGroup
		failed   bool
	)
	all := append([][]string{{busiest}}, groups(slices.DeleteFunc(tests, func(name string) bool { return name == busiest }), parallelWorlds)...)
	for i, group := range all {
		if i == 1 {
			running.Wait()
		}
		running.Go(func() {
			start := time.Now()
			out, err := runGroup(ctx, self, filepath.Join(dir, fmt.Sprintf("group-%d.log", i)), group)
			printing.Lock()
			defer printing.Unlock()
			fmt.Printf("group %d of %d: %d tests in %v\n%s", i+1, len(all), len(group), time.Since(start).Round(time.Second), out)
			if err != nil {
				failed = true
				fmt.Printf("group %d of %d: %v\n", i+1, len(all), err)
			}
		})
	}
	running.Wait()
	if failed {
		return 1, nil
	}
	return 0, everyRightIsUsed(filepath.Join(root, "deploy"), dir)
}

// runGroup runs some tests in a process of this test binary, and returns its output.
func runGroup(ctx context.Context, self, log string, tests []string) ([]byte, error) {
	args := []string{"-test.run=^(" + strings.Join(tests, "|") + ")$"}
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "test.v", "test.timeout", "test.count", "test.failfast", "test.paniconexit0":
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	env := []string{inGroup + "=1", rightsFolder + "=" + filepath.Dir(log)}
	p, err := bed.Start(bed.Command{Name: "a group of tests", Path: self, Args: args, Env: env, Log: log})
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
		err = p.Err()
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), p.Stop())
	}
	out, readErr := os.ReadFile(log)
	// The last line of a group that passed would be read as the result of the package.
	out = bytes.TrimSuffix(out, []byte("PASS\n"))
	return out, errors.Join(err, readErr)
}
