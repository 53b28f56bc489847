// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// A transcript is a list of scripts and what they print, with "----" between and an empty line after. The commands:
//
//	listed yes|no                            whether the API server's lists have all arrived
//	kinds Rollout.argoproj.io=scale Foo.bar  what discovery says; "kinds failed" fails, "kinds" forgets
//	owner Kind.group/name [of Kind.group/n]  a controller arrives or changes
//	gone Kind.group/name                     a controller goes
//	scale Kind.group/name 3|notfound|refused what the scale subresource says
//	pod name of Kind.group/name              a pod arrives or changes
//	tops                                     prints the pods and their topmost controllers
//	target apiVersion Kind name              prints what is wrong with that target
//	replicas Kind.group/name                 prints the scale
func TestOwners(t *testing.T) {
	files, err := filepath.Glob("testdata/owners/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playOwners(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("the transcript has changed:\n%s", got)
			}
		})
	}
}

func playOwners(t *testing.T, text string) string {
	p := newOwnersPlayer(t)
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		script, _, _ := strings.Cut(block, "----\n")
		script, _, _ = strings.Cut(script, "\n----")
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		out.WriteString(strings.TrimRight(script, "\n") + "\n----\n")
		for line := range strings.SplitSeq(script, "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				out.WriteString(p.do(line))
			}
		}
	}
	return out.String()
}

type ownersPlayer struct {
	t      *testing.T
	w      *World
	listed bool
}

func newOwnersPlayer(t *testing.T) *ownersPlayer {
	p := &ownersPlayer{t: t, listed: true}
	p.w = NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Pods: AllPods})
	p.w.owners.synced = func(projection.GroupKind) bool { return p.listed }
	return p
}

// ref reads "Kind.group/name", in namespace shop.
func (p *ownersPlayer) ref(s string) cluster.Workload {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		p.t.Fatalf("not a reference: %q", s)
	}
	kind, group, _ := strings.Cut(kind, ".")
	return cluster.Workload{Group: group, Kind: kind, Namespace: "shop", Name: name}
}

func (p *ownersPlayer) do(line string) string {
	f := strings.Fields(line)
	owner := cluster.Workload{}
	if len(f) == 4 && f[2] == "of" {
		owner = p.ref(f[3])
	}
	switch f[0] {
	case "listed":
		p.listed = f[1] == "yes"
	case "kinds":
		p.kinds(f[1:])
	case "owner":
		w := p.ref(f[1])
		p.w.owners.known[projection.KindOf(w)].put(cluster.Key{Namespace: w.Namespace, Name: w.Name}, projection.ControllerState{Parent: owner})
	case "gone":
		w := p.ref(f[1])
		p.w.owners.known[projection.KindOf(w)].remove(cluster.Key{Namespace: w.Namespace, Name: w.Name})
	case "scale":
		p.scale(p.ref(f[1]), f[2])
	case "pod":
		key := cluster.Key{Namespace: "shop", Name: f[1]}
		p.w.pods.put(key, &cluster.Pod{Key: key, UID: f[1], Controller: owner})
	case "tops":
		var out strings.Builder
		for _, pod := range p.w.Snapshot().Pods {
			top := "?"
			if !pod.Top.IsZero() {
				top = pod.Top.String()
			}
			fmt.Fprintf(&out, "%s  %s\n", pod.Name, top)
		}
		return out.String()
	case "target":
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "a"}}
		if len(f) == 4 {
			a.APIVersion = strings.Trim(f[1], `"`)
			a.Target = projection.Workload(a.APIVersion, f[2], "shop", f[3])
		}
		switch problem, known := p.w.TargetProblem(a); {
		case !known:
			return "not known yet\n"
		case problem == "":
			return "fine\n"
		default:
			return problem + "\n"
		}
	case "replicas":
		switch s := p.w.Scale(p.ref(f[1])); {
		case s.Known:
			return fmt.Sprintf("%d\n", s.Replicas)
		case s.Unscalable:
			return "cannot be scaled\n"
		}
		return "unknown\n"
	default:
		p.t.Fatalf("no such command: %q", line)
	}
	return ""
}

func (p *ownersPlayer) kinds(names []string) {
	k := p.w.owners.kinds
	k.served = make(map[projection.GroupKind]kind)
	for _, name := range names {
		name, subresource, _ := strings.Cut(name, "=")
		w := p.ref(name + "/x")
		k.served[projection.KindOf(w)] = kind{version: "v1", resource: strings.ToLower(w.Kind) + "s", scale: subresource == "scale"}
	}
	k.loaded = time.Now()
}

func (p *ownersPlayer) scale(w cluster.Workload, answer string) {
	e := p.w.owners.scale.want(w)
	resource := schema.GroupResource{Group: w.Group, Resource: strings.ToLower(w.Kind) + "s"}
	switch n, err := strconv.Atoi(answer); {
	case err == nil:
		*e = scaleEntry{read: true, scale: cluster.Scale{Known: true, Replicas: int32(n)}}
	case answer == "notfound":
		e.err, e.gone = apierrors.NewNotFound(resource, w.Name), true
	default:
		e.err = apierrors.NewForbidden(resource, w.Name, errors.New("no"))
	}
}
