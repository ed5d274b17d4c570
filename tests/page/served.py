# SPDX-License-Identifier: Apache-2.0
#
# usage: served.py look ADDRESS
#
# Opens a page of heaptap serve in chromium, and prints one JSON object: what was on the console, and the totals
# that the page computes.
import json
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

LIMIT_S = 60


def start():
    options = Options()
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def wait(driver, script):
    return WebDriverWait(driver, LIMIT_S, poll_frequency=0.1).until(
        lambda driver: driver.execute_script("return " + script))


def open_page(driver, address):
    driver.get(address)
    wait(driver, "document.querySelectorAll('#figures dd').length > 0")


def look(driver, address):
    open_page(driver, address)
    return {"totals": driver.execute_script(
        "return heaptap.sums(heaptap.state().from, heaptap.state().to)")}


def main():
    driver = start()
    try:
        found = {"look": look}[sys.argv[1]](driver, *sys.argv[2:])
        found["console"] = [entry["message"] for entry in driver.get_log("browser")]
        print(json.dumps(found))
    finally:
        driver.quit()


main()
