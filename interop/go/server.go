package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// What the server said about itself.
type server struct {
	AMQP        int    `json:"amqp"`
	AMQPS       int    `json:"amqps"`
	HTTPS       int    `json:"https"`
	Blob        int    `json:"blob"`
	KeyName     string `json:"key_name"`
	Key         string `json:"key"`
	Account     string `json:"account"`
	AccountKey  string `json:"account_key"`
	Certificate string `json:"certificate"`

	Port int `json:"port"`

	URL        string `json:"url"`
	Other      string `json:"other"`
	Token      string `json:"token"`
	OtherToken string `json:"other_token"`
}

func newServer(said string) server {
	var own server
	must(json.Unmarshal([]byte(said), &own))
	return own
}

// For a connection that is not encrypted.
func (s server) connectionString(key string) string {
	return s.text(fmt.Sprintf("localhost:%d", s.AMQP), key) + ";UseDevelopmentEmulator=true"
}

func (s server) text(host, key string) string {
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s", host, s.KeyName, key)
}

// For the Blob service.
func (s server) blobs(key string) string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;",
		s.Account, key, s.blobURL())
}

func (s server) blobURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d/%s", s.Blob, s.Account)
}

// Trusts the server's certificate, and no other.
func (s server) trust() *tls.Config {
	roots := x509.NewCertPool()
	text := value(os.ReadFile(s.Certificate))
	check(roots.AppendCertsFromPEM(text), "a certificate in %s", s.Certificate)
	return &tls.Config{RootCAs: roots}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func value[T any](found T, err error) T {
	must(err)
	return found
}

func check(isSo bool, format string, values ...any) {
	if !isSo {
		panic(fmt.Sprintf(format, values...))
	}
}

func same(found, expected any, what string) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s: %#v instead of %#v", what, found, expected))
	}
}

// An error that says this.
func refused(err error, words string) {
	check(err != nil, "nothing was refused with %q", words)
	check(strings.Contains(err.Error(), words), "%q does not say %q", err, words)
}
