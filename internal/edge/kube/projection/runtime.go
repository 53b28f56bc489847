// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/wording"
)

// runtimes returns the runtimes of the regular containers of a pod, nil if none is known.
func runtimes(p *corev1.Pod) *cluster.Runtimes {
	var out *cluster.Runtimes
	for i := range p.Spec.Containers {
		if i > math.MaxUint8 {
			break // see containers
		}
		c := &p.Spec.Containers[i]
		r, known := runtimeguard.Detect(runtimeguard.Container{
			Label: runtimeLabel(p.Labels, c.Name), Words: words(c), Variables: variables(c.Env), Image: c.Image,
			Imported: len(c.EnvFrom) > 0 || len(c.Env) > runtimeguard.MostVariables,
		})
		if !known {
			continue
		}
		r.Container = uint8(i)
		if out == nil {
			out = new(cluster.Runtimes)
		}
		out.List = append(out.List, r)
	}
	return out
}

func runtimeLabel(labels map[string]string, container string) string {
	if len(labels) == 0 || len(labels) > runtimeguard.MostLabels {
		return ""
	}
	if value, ok := labels[runtimeguard.LabelPrefix+container]; ok {
		return value
	}
	return labels[runtimeguard.Label]
}

// words returns the command and the arguments of a container, at most as many as are read.
func words(c *corev1.Container) []string {
	command := c.Command[:min(len(c.Command), runtimeguard.MostWords)]
	args := c.Args[:min(len(c.Args), runtimeguard.MostWords-len(command))]
	switch {
	case len(command) == 0:
		return args
	case len(args) == 0:
		return command
	}
	return slices.Concat(command, args)
}

func variables(env []corev1.EnvVar) []runtimeguard.Variable {
	var out []runtimeguard.Variable
	for i := range env[:min(len(env), runtimeguard.MostVariables)] {
		if runtimeguard.IsRead(env[i].Name) {
			out = append(out, runtimeguard.Variable{Name: env[i].Name, Value: env[i].Value})
		}
	}
	return out
}

// guards returns what is done for containers whose runtime is known, from the annotations of an autoscaler. An invalid annotation has no
// effect, as if it was absent.
func guards(annotations map[string]string) cluster.RuntimeGuards {
	var out cluster.RuntimeGuards
	var problems []string
	if text, set := annotations[v1alpha1.AnnotationRuntimeGuards]; set {
		parsed, problem := runtimeGuards(strings.Split(wording.Shortened(text, maxQuoted), ","), "annotation "+v1alpha1.AnnotationRuntimeGuards)
		if problem == "" {
			out = parsed
			out.Set = true
		} else {
			problems = append(problems, problem)
		}
	}
	switch text := strings.TrimSpace(annotations[v1alpha1.AnnotationInjectCPUCount]); text {
	case "":
	case v1alpha1.InjectFromRequest:
		out.InjectCPUCount = true
	default:
		problems = append(problems, fmt.Sprintf("annotation %s must be %s, got %q; nothing is injected",
			v1alpha1.AnnotationInjectCPUCount, v1alpha1.InjectFromRequest, quoted(text)))
	}
	if text, set := annotations[v1alpha1.AnnotationInjectHeapPercent]; set {
		percent, err := strconv.ParseFloat(text, 64)
		if err == nil && percent >= 1 && percent <= 100 {
			out.InjectHeapPercent = percent
		} else {
			problems = append(problems, fmt.Sprintf("annotation %s must be a number from 1 to 100, got %q; nothing is injected",
				v1alpha1.AnnotationInjectHeapPercent, quoted(text)))
		}
	}
	out.Problem = strings.Join(problems, "; ")
	return out
}

// maxGuards bounds the elements of a list of guards that are read.
const maxGuards = 8

// runtimeGuards parses a list of guards. It returns none and a problem if one of them is unknown.
func runtimeGuards[T ~string](list []T, what string) (out cluster.RuntimeGuards, problem string) {
	for _, text := range list {
		switch strings.TrimSpace(string(text)) {
		case string(v1alpha1.GuardCPU):
			out.CPU = true
		case string(v1alpha1.GuardMemory):
			out.Memory = true
		case "", v1alpha1.GuardNone:
		default:
			return cluster.RuntimeGuards{}, fmt.Sprintf("%s must contain only %s and %s, got %q; it has no effect",
				what, v1alpha1.GuardCPU, v1alpha1.GuardMemory, quoted(string(text)))
		}
	}
	return out, ""
}
