// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

// versionOf returns the API version of a workload, if a strategic merge patch can change its pod template. For other kinds, a patch would replace
// the list of containers.
func versionOf(w cluster.Workload) (version string, ok bool) {
	_, ok = core.TemplatePaths[w.Kind]
	return strings.TrimPrefix(w.Group+"/v1", "/"), ok && cluster.BuiltinKinds[w.Kind] == w.Group
}

// A manifest is the change of one workload.
type manifest struct {
	workload cluster.Workload
	version  string
	patch    core.Patch
	rows     []*core.Row
}

// manifests returns the changes of all workloads, sorted, and comments about workloads that are left out.
func (c *content) manifests() (out []manifest, leftOut []string) {
	var last *manifest
	without, young, invalid := 0, 0, 0
	var injected, podLevel, unsupported []string
	for _, row := range c.ByName() {
		version, patchable := versionOf(row.Workload)
		which := ShortName(row.Workload) + ", container " + row.Container
		switch {
		case c.heldBack(row):
			young++
		case row.Confidence == core.None:
			without++
		case !row.Changes(cluster.CPU) && !row.Changes(cluster.Memory):
		case !validNames(row):
			invalid++
		case row.Injected: // a patch would add it to the template, without an image
			injected = append(injected, which+": the pod template does not have it; it is added to the pods, for example by a webhook")
		case !row.PodLevel.Empty(): // containers that request more than the pod are refused
			podLevel = append(podLevel, which+": its pods have pod-level requests (spec.resources), which podfit changes together with those of the containers")
		case !patchable:
			unsupported = append(unsupported, ShortName(row.Workload)+": kind "+plain(row.Workload.Kind)+" cannot be patched by a strategic merge")
		default:
			if last == nil || last.workload != row.Workload {
				out = append(out, manifest{workload: row.Workload, version: version, patch: core.Patch{}})
				last = &out[len(out)-1]
			}
			last.patch.Add(row.Container, row.Sidecar, row.Declare().Since(row.Declared()))
			last.rows = append(last.rows, row)
		}
	}
	leftOut = withCount(leftOut, without, "without a recommendation")
	leftOut = withCount(leftOut, young, "with less than 6 hours of usage (--include-young)")
	leftOut = withCount(leftOut, invalid, "with names that Kubernetes does not permit")
	leftOut = append(leftOut, injected...)
	leftOut = append(leftOut, podLevel...)
	return out, append(leftOut, slices.Compact(unsupported)...) // one line for all containers of a workload
}

// comments adds the facts of the report and what is left out as comments of YAML or a shell.
func (p *printer) comments(leftOut []string) {
	p.Text.WriteString("# " + plain(p.header()[0]) + "\n")
	for _, note := range p.notes(false) {
		p.Text.WriteString("# " + strings.TrimSpace(plain(note)) + "\n")
	}
	for _, s := range leftOut {
		p.Text.WriteString("# left out: " + s + "\n")
	}
}

// patch writes commands for a shell that apply the requests.
func (p *printer) patch() {
	all, leftOut := p.manifests()
	p.comments(leftOut)
	for _, m := range all {
		data, err := json.Marshal(m.patch.For(m.workload))
		p.err = errors.Join(p.err, err)
		resource := strings.ToLower(m.workload.Kind)
		fmt.Fprintf(&p.Text, "kubectl patch %s -n %s %s --type strategic -p %s\n", resource, m.workload.Namespace, m.workload.Name, wording.ShellWord(string(data)))
	}
}

// name is the form of the names that Kubernetes permits. Recorded usage may have others.
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9.:-]*[a-z0-9])?$`)

func validNames(row *core.Row) bool {
	return name.MatchString(row.Workload.Namespace) && name.MatchString(row.Workload.Name) && name.MatchString(row.Container)
}

// kustomize writes a component with one strategic merge patch for each workload.
//
// The field namespace of a kustomization sets the namespace of workloads after its components were applied. Until then kustomize treats them
// as if they were in namespace default, so a patch selects that, too. If workloads of several namespaces have the same kind and name, this
// could select another one: their patches select only their own namespace.
func (p *printer) kustomize() {
	const defaultNamespace = "default"
	all, leftOut := p.manifests()
	same := map[cluster.Workload]int{}
	for w := range p.containers() {
		w.Namespace = ""
		same[w]++
	}
	var strict []string
	for _, m := range all {
		if !onlyOne(m.workload, same) {
			strict = append(strict, ShortName(m.workload))
		}
	}
	if len(strict) > 0 {
		p.Text.WriteString("# ATTENTION: several namespaces have workloads with the same name: " + strings.Join(strict, ", ") + ".\n" +
			"# Their patches change nothing in a kustomization that sets the namespace by its field namespace. Remedy: write a component for each namespace, with -n NAMESPACE.\n")
	}
	p.comments(leftOut)
	p.Text.WriteString("# Save it as kustomization.yaml in a folder of its own, and list the folder under components.\n" +
		"# A patch selects its workload by name, in its namespace or without one.\n")
	patches := make([]any, 0, len(all))
	for _, m := range all {
		body := m.patch.For(m.workload)
		body["apiVersion"], body["kind"] = m.version, m.workload.Kind
		body["metadata"] = map[string]any{"name": m.workload.Name, "namespace": m.workload.Namespace}
		data, err := yaml.Marshal(body)
		p.err = errors.Join(p.err, err)
		namespace := m.workload.Namespace
		if onlyOne(m.workload, same) && namespace != defaultNamespace {
			namespace = "(" + namespace + "|" + defaultNamespace + ")"
		}
		target := map[string]any{"kind": m.workload.Kind, "name": regexp.QuoteMeta(m.workload.Name), "namespace": namespace, "version": "v1"}
		if m.workload.Group != "" {
			target["group"] = m.workload.Group
		}
		patches = append(patches, map[string]any{"target": target, "patch": string(data)})
	}
	p.writeYAML(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "patches": patches})
}

func (c *content) containers() map[cluster.Workload]int {
	all := map[cluster.Workload]int{}
	for _, row := range c.Rows {
		all[row.Workload]++
	}
	return all
}

// onlyOne reports whether no other namespace of the report has a workload of the same kind and name.
func onlyOne(w cluster.Workload, same map[cluster.Workload]int) bool {
	w.Namespace = ""
	return same[w] <= 1
}

// helmValues writes one document for each workload. The resources of the only container are at the top, where most charts expect them. If
// the workload has several containers, they are below the name of their container, also if only one of them changes.
func (p *printer) helmValues() {
	all, leftOut := p.manifests()
	containers := p.containers()
	p.comments(leftOut)
	for _, m := range all {
		p.Text.WriteString("---\n# " + ShortName(m.workload) + "\n")
		values := map[string]any{}
		for _, row := range m.rows {
			resources := map[string]any{"resources": row.Declare().Since(core.Size{})}
			if containers[m.workload] == 1 {
				values = resources
			} else {
				values[row.Container] = resources
			}
		}
		p.writeYAML(values)
	}
}

// vpa writes a VPA for each workload that has none. Its update mode is Off, so that it only recommends.
func (p *printer) vpa() {
	var objects []map[string]any
	var leftOut []string
	done := map[cluster.Workload]bool{}
	names := p.vpaNames()
	for _, row := range p.ByName() {
		w := row.Workload
		if row.VPA != "" || done[w] || !validNames(row) {
			continue
		}
		done[w] = true
		version, ok := versionOf(w)
		if !ok {
			leftOut = append(leftOut, ShortName(w)+": the API version of kind "+plain(w.Kind)+" is not known")
			continue
		}
		profile := p.Profiles[0]
		if len(row.Targets) > 0 {
			profile = row.Targets[0].Profile
		}
		objects = append(objects, map[string]any{
			"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
			"metadata": map[string]any{"name": names[w], "namespace": w.Namespace},
			"spec": map[string]any{
				"targetRef":    map[string]any{"apiVersion": version, "kind": w.Kind, "name": w.Name},
				"recommenders": []any{map[string]any{"name": profile}},
				"updatePolicy": map[string]any{"updateMode": "Off"},
			},
		})
	}
	p.comments(leftOut)
	for _, o := range objects {
		p.Text.WriteString("---\n")
		p.writeYAML(o)
	}
}

// vpaNames returns the names of the VPAs for workloads that have none: the name of the workload, with its kind if another workload or VPA of
// the namespace has that name. Otherwise one VPA would overwrite another.
func (c *content) vpaNames() map[cluster.Workload]string {
	users := map[cluster.Key]int{}
	names := map[cluster.Workload]string{}
	for _, row := range c.Rows {
		if _, seen := names[row.Workload]; seen {
			continue
		}
		names[row.Workload] = row.Workload.Name
		users[cluster.Key{Namespace: row.Workload.Namespace, Name: cmp.Or(row.VPA, row.Workload.Name)}]++
	}
	for w := range names {
		if users[cluster.Key{Namespace: w.Namespace, Name: w.Name}] > 1 {
			names[w] = w.Name + "-" + strings.ToLower(w.Kind)
		}
	}
	return names
}

func (p *printer) writeYAML(value any) {
	data, err := yaml.Marshal(value)
	p.err = errors.Join(p.err, err)
	p.Text.Write(data)
}
