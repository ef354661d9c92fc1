#!/bin/sh
# Writes the stores of this directory with openssl 3 and the keytool and java of a JDK 17 or newer. The password of the
# stores is "sesame", that of the private keys in JKS and JCEKS "open sesame". Certificates are valid for 100 years.
set -eu
cd "$(dirname "$0")"
rm -f ./*.jks ./*.jceks ./*.p12 ./*.pem chosen-aliases.json accepted-issuers.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pair() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -keyout "$work/$1.key" -out "$1.pem" -subj "/CN=$2"; }
pair ca "Lab CA"
pair other "Other CA"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/client.key" -out "$work/client.csr" -subj "/CN=client"
openssl x509 -req -in "$work/client.csr" -CA ca.pem -CAkey "$work/ca.key" -CAserial "$work/serial" -CAcreateserial -days 36500 -out "$work/client.pem"
cat "$work/client.pem" ca.pem > chain.pem

from_openssl() { openssl pkcs12 -export -inkey "$work/client.key" -in chain.pem -name Client -passout pass:sesame "$@"; }
from_openssl -out identity-openssl.p12
from_openssl -out identity-openssl-legacy.p12 -legacy
from_openssl -out without-mac.p12 -nomac
from_openssl -passout pass: -out no-password.p12
from_openssl -passout pass: -out no-password-legacy.p12 -legacy
openssl pkcs12 -export -nokeys -in ca.pem -passout pass:sesame -out trust-openssl.p12
openssl pkcs12 -export -nokeys -in other.pem -caname "Corp CA" -certpbe NONE -nomac -passout pass:sesame -out trust-openssl-open.p12
openssl pkcs12 -export -inkey "$work/other.key" -in other.pem -name Other -passout pass:sesame -out "$work/other.p12"

import() { keytool "$@" -noprompt -storepass sesame -storetype "$type" -importcert -alias ca -file ca.pem; }
convert() { # FILE TYPE [OPTION...]
    file=$1 type=$2; shift 2
    keytool "$@" -importkeystore -noprompt -srckeystore identity-openssl.p12 -srcstorepass sesame -srcalias client \
        -destkeystore "$file" -deststoretype "$type" -deststorepass sesame
}
convert identity.jks JKS; keytool -keypasswd -keystore identity.jks -storepass sesame -alias client -keypass sesame -new "open sesame"
convert identity.jceks JCEKS; keytool -keypasswd -keystore identity.jceks -storetype JCEKS -storepass sesame -alias client -keypass sesame -new "open sesame"
convert identity.p12 PKCS12
convert identity-java8.p12 PKCS12 -J-Dkeystore.pkcs12.legacy

type=JKS import -keystore trust.jks
type=JCEKS import -keystore trust.jceks
type=PKCS12 import -keystore trust.p12
type=PKCS12 import -keystore trust-java8.p12 -J-Dkeystore.pkcs12.legacy
type=PKCS12 import -keystore trust-unencrypted.p12 -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE
type=PKCS12 import -keystore trust-open.p12 -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE -J-Dkeystore.pkcs12.macAlgorithm=NONE

# Two private keys and a trusted certificate.
convert several.p12 PKCS12
keytool -importkeystore -noprompt -srckeystore "$work/other.p12" -srcstorepass sesame -destkeystore several.p12 -deststorepass sesame
keytool -importcert -noprompt -alias trusted -file other.pem -keystore several.p12 -storepass sesame
# A trusted certificate beside a private key, and a secret key, which no TLS client needs.
convert mixed.jks JKS; type=JKS import -keystore mixed.jks
keytool -genseckey -alias secret -keyalg AES -keysize 128 -keystore secret.jceks -storetype JCEKS -storepass sesame -keypass sesame

# Names of openssl make no certificate trusted, and neither does an encryption that Java does not know.
from_openssl -out named-ca.p12 -caname "Corp CA"
from_openssl -out named-ca-legacy.p12 -caname "Corp CA" -legacy
from_openssl -out named-ca-camellia.p12 -caname "Corp CA" -certpbe CAMELLIA-128-CBC
from_openssl -out named-like-the-key.p12 -caname Client
from_openssl -out unencrypted.p12 -caname "Corp CA" -certpbe NONE -keypbe NONE -nomac
openssl pkcs12 -export -inkey "$work/client.key" -in chain.pem -passout pass:sesame -out unnamed.p12
# A trusted certificate of keytool beside a private key, with each encryption of Java.
trusting() { # FILE [OPTION...]
    file=$1; shift
    convert "$file" PKCS12 "$@"
    keytool "$@" -importcert -noprompt -alias trusted -file other.pem -keystore "$file" -storepass sesame
}
trusting trusting.p12
trusting trusting-java8.p12 -J-Dkeystore.pkcs12.legacy
for algorithm in PBEWithSHA1AndDESede PBEWithSHA1AndRC2_128 PBEWithHmacSHA1AndAES_128 PBEWithHmacSHA512AndAES_256 NONE; do
    trusting "trusting-$algorithm.p12" "-J-Dkeystore.pkcs12.certProtectionAlgorithm=$algorithm"
done

java KeyStores.java
