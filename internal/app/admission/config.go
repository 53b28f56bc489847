// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// Config is the admission controller's configuration.
type Config struct {
	process.Common

	Files                       registration.Files
	Ciphers, MinTLSVersion      string
	Port                        int
	Address                     string
	Service                     string
	WebhookAddress, WebhookPort string
	ByURL, Register             bool
	TimeoutSeconds              int
	FailurePolicyFail           bool
	Labels                      string
	StatusName, StatusNamespace string
	StatusInterval              time.Duration
	MaxCPUBoost                 process.Quantity

	NoProfiles bool // true if the recommender in this process serves no profiles
}

// Defaults returns upstream's defaults.
func Defaults() Config {
	return Config{
		Common:        process.CommonDefaults(),
		Files:         registration.Files{CA: "/etc/tls-certs/caCert.pem", Cert: "/etc/tls-certs/serverCert.pem", Key: "/etc/tls-certs/serverKey.pem"},
		MinTLSVersion: "tls1_2", Port: 8000, Address: ":8944", Service: "vpa-webhook", Register: true, TimeoutSeconds: 30,
		StatusName: "vpa-admission-controller", StatusInterval: 10 * time.Second,
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.OwnFlags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address on which /metrics and /health-check are served.")
}

// OwnFlags binds what only the admission controller has.
func (c *Config) OwnFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Files.CA, "client-ca-file", c.Files.CA, "Path of the CA certificate with which the API server verifies the webhook.")
	fs.StringVar(&c.Files.Cert, "tls-cert-file", c.Files.Cert, "Path of the webhook's serving certificate. If the file does not exist, podfit creates and renews a certificate itself.")
	fs.StringVar(&c.Files.Key, "tls-private-key", c.Files.Key, "Path of the private key of the webhook's serving certificate.")
	fs.BoolVar(&c.Files.Reload, "reload-cert", c.Files.Reload, "If true, reload the certificate files when they change: they are compared every --status-lease-update-interval.")
	fs.StringVar(&c.Ciphers, "tls-ciphers", c.Ciphers, "Cipher suites for TLS 1.2, separated by commas or colons. Empty means Go's defaults.")
	fs.StringVar(&c.MinTLSVersion, "min-tls-version", c.MinTLSVersion, "Minimum TLS version: tls1_2 or tls1_3.")
	fs.IntVar(&c.Port, "port", c.Port, "Port on which the webhook listens. Between 0 and 65535; 0 means any free port.")
	fs.StringVar(&c.Service, "webhook-service", c.Service, "Name of the Service through which the API server calls the webhook.")
	fs.StringVar(&c.WebhookAddress, "webhook-address", c.WebhookAddress, "Host name or IP address at which the API server reaches the webhook. Required with --register-by-url.")
	fs.StringVar(&c.WebhookPort, "webhook-port", c.WebhookPort, "Port at which the API server reaches the webhook. Used with --register-by-url.")
	fs.BoolVar(&c.ByURL, "register-by-url", c.ByURL, "If true, register the webhook with a URL instead of a Service.")
	fs.BoolVar(&c.Register, "register-webhook", c.Register, "If true, keep the webhook configuration up to date.")
	fs.IntVar(&c.TimeoutSeconds, "webhook-timeout-seconds", c.TimeoutSeconds, "Number of seconds that the API server waits for the webhook. Between 1 and 30.")
	fs.BoolVar(&c.FailurePolicyFail, "webhook-failure-policy-fail", c.FailurePolicyFail, "If true, use the failure policy Fail: the API server rejects pods while the webhook does not answer. If false, it admits them unchanged.")
	fs.StringVar(&c.Labels, "webhook-labels", c.Labels, "Labels of the webhook configuration, as key:value,key:value.")
	fs.StringVar(&c.StatusName, "status-lease-name", c.StatusName, "Name of the status lease, by which the updater knows that the webhook works.")
	fs.StringVar(&c.StatusNamespace, "status-lease-namespace", c.StatusNamespace, "Namespace of the admission controller's status lease. Empty means the environment variable NAMESPACE, or kube-system if that is unset.")
	fs.DurationVar(&c.StatusInterval, "status-lease-update-interval", c.StatusInterval, "Time between two renewals of the status lease.")
	fs.Var(&c.MaxCPUBoost, "max-allowed-cpu-boost", "Maximum CPU that a startup boost gives a container. Empty means no maximum.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error { return errors.Join(c.Common.Validate(), c.ValidateOwn()) }

// ValidateOwn returns an error for each invalid flag that only the admission controller has.
func (c *Config) ValidateOwn() error {
	var errs process.Problems
	errs.AddIf(c.Port < 0 || c.Port > 65535, "--port must be between 0 and 65535, got %d", c.Port)
	errs.AddIf(c.TimeoutSeconds < 1 || c.TimeoutSeconds > 30, "--webhook-timeout-seconds must be between 1 and 30, got %d", c.TimeoutSeconds)
	errs.AddIf(c.MinTLSVersion != "tls1_2" && c.MinTLSVersion != "tls1_3", "--min-tls-version must be tls1_2 or tls1_3, got %q", c.MinTLSVersion)
	errs.AddIf(c.ByURL && c.WebhookAddress == "", "--register-by-url requires --webhook-address, the address at which the API server reaches the webhook")
	_, err := c.labels()
	errs = append(errs, err)
	errs.AddIf(c.StatusInterval <= 0, "--status-lease-update-interval must be greater than 0, got %v", c.StatusInterval)
	return errors.Join(errs...)
}

func (c *Config) labels() (map[string]string, error) {
	out := map[string]string{}
	for item := range strings.SplitSeq(c.Labels, ",") {
		if item == "" {
			continue
		}
		k, v, ok := strings.Cut(item, ":")
		if !ok || k == "" {
			return nil, fmt.Errorf("--webhook-labels must be a list of key:value pairs, got %q", item)
		}
		out[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return out, nil
}
