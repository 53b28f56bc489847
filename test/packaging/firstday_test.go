// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"podfit.dev/podfit/test/e2e/bed"
)

// The commands of docs/first-day.md are run from top to bottom on a real cluster, with podfit as a process. After each step, the pods and
// the VPA are as the page says.
func TestFirstDayPage_allCommands_workFromTopToBottom(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	steps := stepsOf(t, "docs/first-day.md")
	if len(steps) != 7 {
		t.Fatalf("the page has %d steps with commands, want 7", len(steps))
	}
	manifest := filepath.Join(t.TempDir(), "vpa.yaml")
	if err := os.WriteFile(manifest, []byte(manifestOf(t, "docs/first-day.md")), 0o600); err != nil {
		t.Fatal(err)
	}
	steps[1][0] = strings.ReplaceAll(steps[1][0], "vpa.yaml", manifest)
	running := w.podfit(t)
	if err := w.ApplyYAML(t.Context(), "shop", workload); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("log of podfit:\n%s", running.Tail(30))
		}
	}()

	recommended := make(chan string, 1)
	go func() { // podfit recommend reads usage for two minutes
		out, err := w.command(t, steps[0][0])
		recommended <- fmt.Sprint(out, err)
	}()
	w.runStep(t, steps[1]) // create the VPA
	until(t, "the VPA has a recommendation", 2*time.Minute, func(context.Context) error {
		out, err := w.command(t, "kubectl -n shop get vpa web")
		if err == nil && !strings.Contains(out, "True") {
			err = errors.New(out)
		}
		return err
	})
	out := w.runStep(t, steps[2]) // describe, explain
	if !strings.Contains(out, "shop/Deployment/web") || !strings.Contains(out, "Container Recommendations") {
		t.Errorf("kubectl describe and podfit explain print:\n%s", out)
	}
	if got := w.requests(t); strings.Count(got, "100m") != 2 {
		t.Errorf("the mode Off changed the pods: %s", got)
	}
	w.runStep(t, steps[3]) // select a profile; podfit backtest needs weeks of history
	w.runStep(t, steps[4]) // Initial
	until(t, "the new pods have the recommended size", 2*time.Minute, func(context.Context) error {
		if got := w.requests(t); strings.Contains(got, "100m") || strings.Count(got, "web-") != 2 {
			return errors.New(got)
		}
		return nil
	})
	w.runStep(t, steps[5]) // InPlaceOrRecreate, with windows and a canary
	until(t, "the updater knows the VPA", time.Minute, func(context.Context) error {
		out, err := w.command(t, "kubectl -n shop get vpa web -o yaml")
		if err == nil && !strings.Contains(out, "type: Updating") {
			err = errors.New(out)
		}
		return err
	})
	if out := <-recommended; !strings.Contains(out, "shop/deploy/web") {
		t.Errorf("podfit recommend prints:\n%s", out)
	}
	w.runStep(t, steps[6]) // back
	until(t, "the pods have the requests of the manifest", 2*time.Minute, func(context.Context) error {
		if got := w.requests(t); strings.Count(got, "100m") != 2 || strings.Count(got, "web-") != 2 {
			return errors.New(got)
		}
		return nil
	})
}

// podfit starts all components of podfit, with short intervals, and ends them with the test.
func (w *world) podfit(t *testing.T) *bed.Podfit {
	t.Helper()
	for _, folder := range []string{"deploy", "deploy/all-in-one"} {
		if err := w.Install(t.Context(), filepath.Join(root, folder)); err != nil {
			t.Fatal(err)
		}
	}
	serving, err := bed.Serving()
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Run(t.Context(), w.binary, bed.All().With(serving...).With("--recommender-interval=5s", "--updater-interval=5s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	until(t, "podfit is healthy", time.Minute, p.Healthy)
	until(t, "the webhook is registered", time.Minute, w.Registered)
	return p
}

// requests returns the names and CPU requests of the pods in the namespace shop that are not being deleted.
func (w *world) requests(t *testing.T) string {
	t.Helper()
	pods, err := w.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p.Name+" "+p.Spec.Containers[0].Resources.Requests.Cpu().String())
		}
	}
	return strings.Join(out, ", ")
}

var (
	section      = regexp.MustCompile(`(?m)^## `)
	commandBlock = regexp.MustCompile("(?s)```\n(.*?)```")
	yamlBlock    = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	shellWord    = regexp.MustCompile(`(?:[^\s'"]+|'[^']*'|"[^"]*")+`)
)

// stepsOf returns the commands of each section of a page that has commands.
func stepsOf(t *testing.T, page string) (steps [][]string) {
	t.Helper()
	for _, text := range section.Split(yamlBlock.ReplaceAllString(read(t, filepath.Join(root, page)), ""), -1) {
		var commands []string
		for _, block := range commandBlock.FindAllStringSubmatch(text, -1) {
			commands = append(commands, strings.Split(strings.TrimSpace(strings.ReplaceAll(block[1], "\\\n", " ")), "\n")...)
		}
		if len(commands) > 0 {
			steps = append(steps, commands)
		}
	}
	return steps
}

// manifestOf returns the only manifest of a page.
func manifestOf(t *testing.T, page string) string {
	t.Helper()
	blocks := yamlBlock.FindAllStringSubmatch(read(t, filepath.Join(root, page)), -1)
	if len(blocks) != 1 {
		t.Fatalf("%s has %d manifests, want 1", page, len(blocks))
	}
	return blocks[0][1]
}

// runStep runs commands one after the other, and returns what they print. It skips podfit backtest, which
// TestBacktest_prometheus_replaysHistory runs.
func (w *world) runStep(t *testing.T, commands []string) string {
	t.Helper()
	var all strings.Builder
	for _, c := range commands {
		if strings.HasPrefix(c, "podfit backtest ") {
			continue
		}
		out, err := w.command(t, c)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		all.WriteString(out)
	}
	return all.String()
}

// command runs podfit or, in this process, kubectl.
func (w *world) command(t *testing.T, line string) (string, error) {
	t.Helper()
	var words []string
	for _, word := range shellWord.FindAllString(line, -1) {
		words = append(words, strings.NewReplacer("'", "").Replace(word))
	}
	if words[0] == "kubectl" {
		return w.kubectl(words[1:]...)
	}
	if words[0] != "podfit" {
		return "", fmt.Errorf("%s is neither podfit nor kubectl", words[0])
	}
	return w.podfitOutput(t, words[1:]...)
}

// kubectl runs kubectl with arguments, in this process. It returns what kubectl prints.
func (w *world) kubectl(args ...string) (text string, err error) {
	var out, errs bytes.Buffer
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kubectl %s: %v", strings.Join(args, " "), r)
		}
	}()
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(message) })
	defer cmdutil.DefaultBehaviorOnFatal()
	flags := w.flags()
	flags.Namespace = new(string)
	c := cmd.NewKubectlCommand(cmd.KubectlOptions{
		Arguments: append([]string{"kubectl"}, args...), ConfigFlags: flags,
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
	})
	c.SetArgs(args)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.Execute(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}
