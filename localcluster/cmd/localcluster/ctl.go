// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func ctl() *cobra.Command {
	c := &cobra.Command{Use: "ctl", Short: "Ask something of a running cluster"}
	d := &door{}
	d.flag(c)
	for _, do := range []string{"stop", "start", "kill"} {
		c.AddCommand(&cobra.Command{
			Use: do + " PART...", Short: do + " parts of the cluster, and wait for it", Args: cobra.MinimumNArgs(1),
			RunE: func(c *cobra.Command, parts []string) error {
				for _, p := range parts {
					if err := d.call(c, http.MethodPost, "/parts/"+p+"/"+do, nil); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	for path, short := range map[string]string{"parts": "list the parts", "containers": "what every container really does", "cluster": "how to reach the cluster", "clock": "the scenario's time", "demands": "the overrides in force"} {
		c.AddCommand(&cobra.Command{Use: path, Short: "Show " + short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return d.call(c, http.MethodGet, "/"+path, nil)
		}})
	}
	c.AddCommand(&cobra.Command{
		Use: "demand NAMESPACE/POD/CONTAINER [cpu=...] [memory=...] [exit=...] [ready=...]", Args: cobra.MinimumNArgs(1),
		Short: "Override what a container does; the pod may end with *; nothing said takes the override back",
		RunE: func(c *cobra.Command, args []string) error {
			script := map[string]string{}
			for _, a := range args[1:] {
				name, value, ok := strings.Cut(a, "=")
				if !ok {
					return fmt.Errorf("%q: want name=value", a)
				}
				script[name] = value
			}
			if len(script) == 0 {
				return d.call(c, http.MethodDelete, "/demands/"+args[0], nil)
			}
			text, err := json.Marshal(script)
			if err != nil {
				return err
			}
			return d.call(c, http.MethodPut, "/demands/"+args[0], text)
		},
	}, &cobra.Command{
		Use: "scenario FILE", Short: "Play another scenario", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			return d.call(c, http.MethodPut, "/scenario", text)
		},
	}, &cobra.Command{Use: "quit", Short: "End the cluster", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return d.call(c, http.MethodPost, "/quit", nil)
	}})
	return c
}

func kubeconfig() *cobra.Command {
	d := &door{}
	var user string
	var groups []string
	c := &cobra.Command{
		Use: "kubeconfig", Short: "Print a kubeconfig by which one acts as any user", Args: cobra.NoArgs,
		Long: "Print a kubeconfig by which one acts as any user. A service account is the user system:serviceaccount:NAMESPACE:NAME;\n" +
			"its groups (system:serviceaccounts, system:serviceaccounts:NAMESPACE) are added if none are given.",
		RunE: func(c *cobra.Command, _ []string) error {
			q := url.Values{"user": {user}, "group": groups}
			return d.call(c, http.MethodGet, "/kubeconfig?"+q.Encode(), nil)
		},
	}
	d.flag(c)
	c.Flags().StringVar(&user, "user", "", "the user's name")
	c.Flags().StringArrayVar(&groups, "group", nil, "a group of the user; may be repeated")
	_ = c.MarkFlagRequired("user")
	return c
}

// A door leads to a running cluster's control.
type door struct{ url string }

func (d *door) flag(c *cobra.Command) {
	c.PersistentFlags().StringVar(&d.url, "control", os.Getenv("LOCALCLUSTER"), "the control of the cluster, as `up` prints it (default: $LOCALCLUSTER)")
}

func (d *door) call(c *cobra.Command, method, path string, body []byte) error {
	if d.url == "" {
		return errors.New("which cluster? set LOCALCLUSTER or --control to the URL that `localcluster up` has printed")
	}
	q, err := http.NewRequestWithContext(c.Context(), method, strings.TrimSuffix(d.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode >= 300 {
		text, _ := io.ReadAll(reply.Body)
		return fmt.Errorf("%s: %s", reply.Status, strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(c.OutOrStdout(), reply.Body)
	return err
}
