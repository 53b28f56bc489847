// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/scale"
	"podfit.dev/podfit/test/kubetest"
	"podfit.dev/podfit/test/transcript"
)

// The commands of the transcripts in testdata/owners:
//
//	listed yes|no                            whether all lists of the API server have arrived
//	kinds Rollout.argoproj.io=scale Foo.bar  the result of discovery; =scale means that the kind has a scale subresource
//	owner Kind.group/name [of Kind.group/n]  creates or changes a controller
//	gone Kind.group/name                     deletes a controller
//	scale Kind.group/name 3|notfound|refused the response for the scale subresource
//	pod name of Kind.group/name              creates or changes a pod
//	tops                                     prints the pods and their topmost controllers
//	target apiVersion Kind name              prints the problem with that target
//	replicas Kind.group/name                 prints the scale
func TestOwners_transcripts_areUnchanged(t *testing.T) {
	transcript.Run(t, "testdata/owners/*.txt", func(t *testing.T) transcript.Command {
		p := newOwnersPlayer(t)
		return func(fields []string, out *strings.Builder) error {
			out.WriteString(p.execute(fields))
			return nil
		}
	})
}

type ownersPlayer struct {
	t      *testing.T
	w      *World
	listed bool
	other  *fakeControllers
}

func newOwnersPlayer(t *testing.T) *ownersPlayer {
	p := &ownersPlayer{t: t, listed: true, other: new(fakeControllers)}
	p.w = NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Pods: AllPods})
	p.w.owners.synced = func(projection.GroupKind) bool { return p.listed }
	p.w.owners.other = p.other
	return p
}

// ref reads "Kind.group/name", in namespace shop.
func (p *ownersPlayer) ref(s string) cluster.Workload {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		p.t.Fatalf("%q is not of the form Kind.group/name", s)
	}
	kind, group, _ := strings.Cut(kind, ".")
	return cluster.Workload{Group: group, Kind: kind, Namespace: "shop", Name: name}
}

// execute executes a command and returns its output.
func (p *ownersPlayer) execute(f []string) string {
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
		p.w.owners.known[projection.KindOf(w)].Put(cluster.Key{Namespace: w.Namespace, Name: w.Name}, projection.ControllerState{Parent: owner})
	case "gone":
		w := p.ref(f[1])
		p.w.owners.known[projection.KindOf(w)].Remove(cluster.Key{Namespace: w.Namespace, Name: w.Name})
	case "scale":
		p.scale(p.ref(f[1]), f[2])
	case "pod":
		key := cluster.Key{Namespace: "shop", Name: f[1]}
		p.w.pods.Put(key, &cluster.Pod{Key: key, UID: f[1], Controller: owner})
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
			return "unknown\n"
		case problem == "":
			return "no problem\n"
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
		p.t.Fatalf("unknown command %q", f[0])
	}
	return ""
}

// kinds makes names the result of discovery.
func (p *ownersPlayer) kinds(names []string) {
	served := make(map[projection.GroupKind]scale.Kind)
	for _, name := range names {
		name, subresource, _ := strings.Cut(name, "=")
		w := p.ref(name + "/x")
		served[projection.KindOf(w)] = scale.Kind{Version: "v1", Resource: strings.ToLower(w.Kind) + "s", Scale: subresource == "scale"}
	}
	p.other.discover(served)
}

func (p *ownersPlayer) scale(w cluster.Workload, answer string) {
	e := p.other.Scale(w)
	e.Answered = true
	resource := schema.GroupResource{Group: w.Group, Resource: strings.ToLower(w.Kind) + "s"}
	switch n, err := strconv.Atoi(answer); {
	case err == nil:
		e = scale.Reading{Answered: true, Scale: cluster.Scale{Known: true, Replicas: int32(n)}}
	case answer == "notfound":
		e.Err = apierrors.NewNotFound(resource, w.Name)
		e.Missing = true
	default:
		e.Err = apierrors.NewForbidden(resource, w.Name, errors.New("no"))
	}
	p.other.read[w] = e
}

// Whether a controller exists is not known before all are listed.
func TestScale_replicaSetIsDeleted_isGone(t *testing.T) {
	p := newOwnersPlayer(t)
	for _, listed := range []bool{false, true} {
		p.listed = listed
		if got := p.w.Scale(p.ref("ReplicaSet.apps/gone")); got != (cluster.Scale{Gone: listed}) {
			t.Errorf("all ReplicaSets are listed: %t; scale %+v", listed, got)
		}
	}
}
