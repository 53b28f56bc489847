// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario determines what a simulated container does. CPU, memory, pressure, exit, readiness and resizes are determined separately,
// each by the first of these sources that has a value:
//
//   - an override, set while the cluster runs,
//   - an annotation of the pod, sim.podfit.dev/<container>.cpu, .memory, .pressure, .exit, .ready or .resize,
//   - a rule of the scenario file,
//   - the default: 1m of CPU and 8Mi of memory, without pressure and without an exit.
package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/localcluster/internal/demand"
	"podfit.dev/podfit/localcluster/internal/machine"
	"sigs.k8s.io/yaml"
)

// Prefix is the prefix of the annotations that a scenario reads.
const Prefix = "sim.podfit.dev/"

// A Script describes what a container does, in expressions of package demand. Empty fields are unset.
type Script struct {
	CPU      string `json:"cpu,omitempty"`
	Memory   string `json:"memory,omitempty"`
	Pressure string `json:"pressure,omitempty"`
	Exit     string `json:"exit,omitempty"`
	Ready    string `json:"ready,omitempty"`
	Resize   string `json:"resize,omitempty"` // fails, or empty
}

// A Target selects the containers of a rule. Empty fields match all.
type Target struct {
	Namespace string            `json:"namespace,omitempty"`
	Owner     string            `json:"owner,omitempty"` // a Deployment, StatefulSet, DaemonSet or Job
	Pod       string            `json:"pod,omitempty"`   // prefix of the pod's name
	Labels    map[string]string `json:"labels,omitempty"`
	Container string            `json:"container,omitempty"`
}

// A Rule is the script of the selected containers.
type Rule struct {
	Target `json:",inline"`
	Script `json:",inline"`
}

// A File is a scenario file. The first matching rule with a value wins.
type File struct {
	Rules []Rule `json:"rules"`
}

// A Container is the input for the choice of a script.
type Container struct {
	Namespace, Pod, Name string
	Owner                string
	Labels, Annotations  map[string]string
}

// Parse parses a scenario file. All its expressions must be valid.
func Parse(text []byte) (File, error) {
	var f File
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return File{}, fmt.Errorf("read the scenario: %w", err)
	}
	for i, r := range f.Rules {
		if _, err := r.Script.wish(); err != nil {
			return File{}, fmt.Errorf("rule %d of the scenario: %w", i+1, err)
		}
	}
	return f, nil
}

// A Scenario is a scenario file and the overrides.
type Scenario struct {
	File      File
	Overrides map[string]Script // by namespace/pod/container; pod may be a prefix that ends with *
}

// Override sets the override for the containers of a key. An empty script removes it.
func (s *Scenario) Override(key string, script Script) error {
	if parts := strings.Split(key, "/"); len(parts) != 3 || slices.Contains(parts, "") {
		return fmt.Errorf("override must be for NAMESPACE/POD/CONTAINER, where POD may end with *, got %q", key)
	}
	if _, err := script.wish(); err != nil {
		return fmt.Errorf("override %s: %w", key, err)
	}
	if script == (Script{}) {
		delete(s.Overrides, key)
		return nil
	}
	if s.Overrides == nil {
		s.Overrides = map[string]Script{}
	}
	s.Overrides[key] = script
	return nil
}

// Wish returns what the container does. If an expression is invalid, it uses the default in its place and returns an error too.
func (s *Scenario) Wish(c Container) (machine.Wish, error) {
	var chosen Script
	for _, source := range s.sources(c) {
		choose(&chosen.CPU, source.CPU)
		choose(&chosen.Memory, source.Memory)
		choose(&chosen.Pressure, source.Pressure)
		choose(&chosen.Exit, source.Exit)
		choose(&chosen.Ready, source.Ready)
		choose(&chosen.Resize, source.Resize)
	}
	return chosen.wish()
}

func choose(chosen *string, next string) {
	if *chosen == "" {
		*chosen = next
	}
}

func (s *Scenario) sources(c Container) []Script {
	var all []Script
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(s.Overrides))) { // the longest prefix first
		if matches(key, c) {
			all = append(all, s.Overrides[key])
		}
	}
	annotation := func(what string) string { return c.Annotations[Prefix+c.Name+"."+what] }
	all = append(all, Script{annotation("cpu"), annotation("memory"), annotation("pressure"), annotation("exit"), annotation("ready"), annotation("resize")})
	for _, r := range s.File.Rules {
		if r.Target.matches(c) {
			all = append(all, r.Script)
		}
	}
	return all
}

func matches(key string, c Container) bool {
	parts := strings.Split(key, "/")
	prefix, isPrefix := strings.CutSuffix(parts[1], "*")
	return parts[0] == c.Namespace && parts[2] == c.Name && (parts[1] == c.Pod || isPrefix && strings.HasPrefix(c.Pod, prefix))
}

func (t Target) matches(c Container) bool {
	for name, value := range t.Labels {
		if c.Labels[name] != value {
			return false
		}
	}
	return (t.Namespace == "" || t.Namespace == c.Namespace) &&
		(t.Owner == "" || t.Owner == c.Owner) &&
		strings.HasPrefix(c.Pod, t.Pod) &&
		(t.Container == "" || t.Container == c.Name)
}

// wish parses the script. Unset and invalid fields get the default.
func (s Script) wish() (machine.Wish, error) {
	w := machine.Wish{CPU: demand.Constant(0.001), Memory: demand.Constant(8 << 20)}
	var errs []error
	for _, of := range []struct {
		text string
		into *demand.Profile
	}{{s.CPU, &w.CPU}, {s.Memory, &w.Memory}, {s.Pressure, &w.Pressure}} {
		if of.text == "" {
			continue
		}
		p, err := demand.Parse(of.text)
		if err == nil {
			*of.into = p
		}
		errs = append(errs, err)
	}
	if s.Exit != "" {
		e, err := demand.ParseExit(s.Exit)
		w.Exit = e
		errs = append(errs, err)
	}
	if s.Ready != "" {
		r, err := demand.ParseReady(s.Ready)
		w.Ready = r
		errs = append(errs, err)
	}
	switch s.Resize {
	case "":
	case "fails":
		w.ResizeFails = true
	default:
		errs = append(errs, fmt.Errorf("resize must be fails, got %q", s.Resize))
	}
	return w, errors.Join(errs...)
}

// Owner returns the name of a pod's top-level owner: for a ReplicaSet, the name of its Deployment.
func Owner(kind, name string) string {
	if kind == "ReplicaSet" {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			return name[:i]
		}
	}
	return name
}
