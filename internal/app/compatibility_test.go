// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/test/contract"
	"podfit.dev/podfit/test/rowtest"
)

// changesNoBehaviour are podfit's own flags for which the switch --compatibility needs no value, with the reason.
var changesNoBehaviour = map[string]string{
	"help-all": "prints help", "log-format": "format of the log",
	"context": "which cluster", "as": "which user", "namespace": "another name of upstream's flag", "all-namespaces": "the default",
	compatibility.FlagName: "the switch itself", "dry-run": "off by default",
	"export-recommendations":        "metrics, off by default",
	"namespace-opt-in":              "off by default",
	"kubelet-usage":                 "off by default",
	"kubelet-insecure-tls":          "how a server is reached",
	"freeze-configmap":              "does nothing unless the ConfigMap exists, which people create to stop podfit",
	"max-change-per-hour-namespace": "no limit by default", "max-change-per-hour-cluster": "no limit by default",
	"max-node-cpu": "no node can be added by default, and --fit-nodes=false makes it have no effect", "max-node-memory": "as max-node-cpu",
	"placeholder-image": "has no effect with --capacity-before-eviction=off", "provisioning-class": "has no effect with --capacity-before-eviction=off",
	"node-guard-pressure":         "has no effect with --node-guard=false",
	"scheduler-resize-preemption": "has no effect with --make-room=off",
	"prometheus-address":          "address of a server; none by default", "prometheus-insecure": "how a server is reached", "prometheus-bearer-token-file": "how a server is reached",
	"container-name-label": "names in a server", "container-namespace-label": "names in a server", "container-pod-name-label": "names in a server",
}

// A flag of podfit's own that changes behaviour is in the table of deviations.
func TestCompatibility_eachOwnFlag_isInTheTableOrChangesNoBehaviour(t *testing.T) {
	switched := map[string]bool{}
	for _, s := range compatibility.Upstream.Settings() {
		switched[s.Flag] = true
	}
	used := map[string]bool{}
	check := func(command string, upstream []contract.Flag, fs *pflag.FlagSet) {
		fs.VisitAll(func(f *pflag.Flag) {
			of := slices.ContainsFunc(upstream, func(u contract.Flag) bool { return u.Name == f.Name })
			if of || strings.HasPrefix(f.Name, "web-") { // the page is off by default, and changes nothing
				return
			}
			reason := changesNoBehaviour[f.Name]
			used[f.Name] = true
			if strings.HasSuffix(reason, "off by default") && f.DefValue != "false" {
				t.Errorf("--%s of %s is %s by default", f.Name, command, f.DefValue)
			}
			if switched[f.Name] == (reason != "") {
				t.Errorf("--%s of %s must be in rowtest.Table, or in changesNoBehaviour with a reason; in the table: %v, reason %q", f.Name, command, switched[f.Name], reason)
			}
		})
	}
	for _, c := range components {
		check(c.name, c.flags(), command(t, c.name).Flags())
	}
	check("run", slices.Concat(contract.RecommenderFlags(), contract.UpdaterFlags(), contract.AdmissionFlags()), command(t, "run").Flags())
	for name := range changesNoBehaviour {
		if !used[name] {
			t.Errorf("changesNoBehaviour has --%s, which no component has", name)
		}
	}
}

// Each flag of the table has podfit's value by default, and upstream's with the switch, in every component that has it.
func TestCompatibility_flagsOfTheTable_haveBothValues(t *testing.T) {
	found := map[string]bool{}
	for _, name := range []string{"recommender", "updater", "admission-controller", "run"} {
		fs := command(t, name).Flags()
		if err := fs.Set(compatibility.FlagName, "upstream"); err != nil {
			t.Fatal(err)
		}
		if err := compatibility.ApplyGiven(fs); err != nil {
			t.Fatal(err)
		}
		for _, d := range rowtest.Table {
			f := fs.Lookup(d.Flag)
			if d.Flag == "" || f == nil {
				continue
			}
			found[d.Flag] = true
			if f.DefValue != d.Ours || f.Value.String() != d.Theirs {
				t.Errorf("%s --%s: %q by default and %q with the switch, want %q and %q", name, d.Flag, f.DefValue, f.Value, d.Ours, d.Theirs)
			}
		}
	}
	for _, d := range rowtest.Table {
		if d.Flag != "" && !found[d.Flag] {
			t.Errorf("no component has --%s of %q", d.Flag, d.Name)
		}
	}
}

func TestVersion_compatibility_isNamedWithItsFlags(t *testing.T) {
	for value, flag := range map[string]string{"podfit": "", "upstream": "--early-passes=false"} {
		var out bytes.Buffer
		args := []string{"podfit", "version", "-o", "json", "--compatibility=" + value}
		if code := Main(t.Context(), args, Streams{Out: &out, Err: io.Discard}); code != exitOK {
			t.Fatalf("exit code %d", code)
		}
		var parsed map[string]string
		if err := json.Unmarshal(out.Bytes(), &parsed); err != nil || parsed["compatibility"] != value || !strings.Contains(parsed["compatibilityFlags"], flag) {
			t.Errorf("%s: error %v, output %s", value, err, out.String())
		}
	}
	if code := Main(t.Context(), []string{"podfit", "version", "--compatibility=other"}, Streams{Out: io.Discard, Err: io.Discard}); code != exitUsage {
		t.Errorf("exit code %d for an unknown value", code)
	}
}

// The first log line names the switch, also of a component that cannot reach its cluster.
func TestComponents_firstLogLine_namesTheCompatibility(t *testing.T) {
	for _, name := range []string{"recommender", "updater", "admission-controller", "run"} {
		for _, value := range []string{"podfit", "upstream"} {
			var log bytes.Buffer
			_ = Main(t.Context(), []string{"podfit", name, "--kubeconfig=/does/not/exist", "--log-format=json", "--compatibility=" + value}, process.Streams{Out: io.Discard, Err: &log})
			first, _, _ := strings.Cut(log.String(), "\n")
			if !strings.Contains(first, `"compatibility":"`+value+`"`) {
				t.Errorf("%s: the first line is %s", name, first)
			}
		}
	}
}
