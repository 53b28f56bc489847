// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"io"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

func (s *scene) setProvider(f []string) error {
	s.provider = NoProvider
	if f[0] == "placeholders" {
		s.provider = PlaceholderPods
	}
	return nil
}

// scheduleAll places the pods without a node.
func (s *scene) scheduleAll([]string) error {
	for _, p := range s.pods {
		if p.Node == "" && len(s.nodes) > 0 {
			p.Node = s.nodes[0].Name
			s.schedule(p)
		}
	}
	return nil
}

func (s *scene) losePlaceholder(f []string) error {
	key := parseKey(f[0])
	for _, p := range slices.Clone(s.pods) {
		if p.Key == key {
			s.remove(cluster.PlaceholderOf(p))
		}
	}
	return nil
}

// placeholderOf returns the name of a placeholder in the transcripts. The real name has no meaning for readers.
func placeholderOf(pod cluster.Key) cluster.Key {
	return cluster.Key{Namespace: pod.Namespace, Name: "placeholder-" + pod.Name}
}

func (s *scene) remove(key cluster.Key) {
	s.pods = slices.DeleteFunc(s.pods, func(p *cluster.Pod) bool { return p.Key == key })
}

// executeCapacity creates and deletes placeholder pods, as the API server answers.
func (s *scene) executeCapacity(pass *Pass, out io.Writer) {
	steps := pass.CapacitySteps()
	for i := range steps {
		step := &steps[i]
		act, key, why := "reserve", cluster.Key{}, ""
		if step.Placeholder != nil {
			act, key, why = "release", step.Placeholder.Key, " ("+string(step.Release)+")"
		}
		if step.Pod != nil {
			key = placeholderOf(step.Pod.Key)
		}
		answer := s.answers[key.String()+" "+act]
		if answer == "" {
			answer = "ok"
		}
		fmt.Fprintf(out, "%s %s%s: %s\n", act, key, why, answer)
		if answer == "ok" || answer == "late" {
			s.applyCapacity(step)
		}
		if answer == "ok" {
			pass.CapacityDone(step)
			continue
		}
		pass.CapacityRefused(step, Refusal{Kind: refusalKinds[answer], Text: answer})
	}
}

func (s *scene) applyCapacity(step *CapacityStep) {
	if step.Placeholder != nil {
		s.remove(step.Placeholder.Key)
		return
	}
	key := cluster.PlaceholderOf(step.Pod)
	s.pods = append(s.pods, &cluster.Pod{
		Key: key, UID: "uid-" + key.String(), Created: s.now, Phase: cluster.Pending, Priority: -1000000,
		Placeholder: true,
		Containers:  []cluster.Container{{Name: "pause", Requests: step.Size}},
	})
}
